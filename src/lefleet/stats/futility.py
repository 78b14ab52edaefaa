"""Is it still worth going on? Conditional power: the chance to prove `min_effect` from here."""

from math import log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from lefleet.stats.sign_test import Floats

    type Truths = NDArray[np.bool_]

# As if this many pairs had been seen before the first, half of them different: a few equal pairs
# at the start do not make a difference impossible.
_PRIOR_PAIRS = 4.0
# How much higher the boundary of linear spending ends than that of a single look.
_SPENDING = 0.45
# Standard deviations beyond the boundary for a power of 0.8.
_POWER = 0.84
# A proof of worse that is at least this likely is worth going on for. A smaller number proves more
# candidates worse; this one keeps those that are no better below 0.7 of a fixed-size test's pairs.
_LIKELY = 0.65


def critical_of_spending(alpha: float) -> float:
    """Standard deviations that a lead needs in the end to be proven by the spending test."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - alpha)) + _SPENDING


def critical_of_betting(alpha: float) -> float:
    """The same for an e-value: about what the best single bet needs to reach 1 / alpha."""
    return sqrt(2.0 * log(1.0 / alpha))


def is_futile(power: "Floats", power_worse: "Floats", below: float) -> "Truths":
    """Hardly a proof of better can follow, and no likely proof of worse.

    A candidate that is clearly worse has no chance to be proven better either; stopping there
    would take away the proof that it is worse.
    """
    return (power < below) & (power_worse < _LIKELY)


def is_refuted(interval: tuple[float, float], better: float, worse: float) -> bool:
    """Whatever the difference is, it is no improvement by `better`, and no loss by `worse`."""
    low, high = interval
    return -worse < low and high < better


def conditional_power(
    lead: "ArrayLike",
    squares: "ArrayLike",
    pairs: int,
    left: int,
    *,
    min_effect: "ArrayLike",
    critical: float,
) -> "Floats":
    """Chance that the lead reaches `critical` deviations with `left` more pairs.

    Normal approximation: Phi((lead + r*delta - c*sqrt(q + r*v)) / sqrt(r*(v - delta^2))), where
    q is the sum of squared differences, v their mean, r the pairs left. For success the lead is
    wins minus losses and q the number of pairs that differ. delta is `min_effect`; where the gate
    is too small or too strict for that, it is the difference that the gate proves with a power of
    0.8, for it may well be that large.
    """
    import numpy as np
    from scipy.special import ndtr

    lead, squares = np.asarray(lead, dtype=float), np.asarray(squares, dtype=float)
    min_effect = np.asarray(min_effect, dtype=float)
    if left == 0:
        return np.where((lead > 0) & (lead >= critical * np.sqrt(squares)), 1.0, 0.0)
    mean_square = (squares + _PRIOR_PAIRS / 2) / (pairs + _PRIOR_PAIRS)
    mean_square = np.maximum(mean_square, min_effect)
    provable = (critical + _POWER) * np.sqrt(mean_square / (pairs + left))
    effect = np.minimum(np.maximum(min_effect, provable), mean_square)
    needed = critical * np.sqrt(squares + left * mean_square)
    spread = np.sqrt(left * np.maximum(mean_square - effect**2, 1e-9))
    chance: Floats = ndtr((lead + left * effect - needed) / spread)
    return chance
