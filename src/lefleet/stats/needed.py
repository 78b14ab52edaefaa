"""After a comparison without a clear answer: about how many pairs would give one."""

from math import ceil, floor, log10, sqrt

from lefleet.records.evaluate import MOST_NEEDED
from lefleet.records.fields import Metric
from lefleet.stats.futility import critical_of_spending
from lefleet.stats.inputs import require_alpha
from lefleet.stats.planning import fixed_size

_POWER = 0.8
# Pairs that a gate must plan for this power, relative to a fixed-size test.
_SEQUENTIAL = 1.1
# Standard deviations below its mean at which the lead must still suffice: for the power at one
# look it is 0.84, and as the largest e-value of all looks counts, this much is enough.
_UNLUCKY = 0.5


def needed_pairs(alpha: float, difference: float, mean_square: float, metric: Metric) -> int:
    """About how many pairs a new gate needs to show this difference, either way, 8 times in 10.

    `mean_square` is that of the differences; for success it is the share of pairs that differ. The
    result is rounded up to two digits, and at most `MOST_NEEDED`.
    """
    require_alpha(alpha)
    effect = min(abs(difference), 0.99)
    needed = _of_success if metric == "success" else _of_progress
    pairs = min(needed(alpha, effect, mean_square), MOST_NEEDED)
    step = 10 ** max(floor(log10(pairs)) - 1, 0)
    return ceil(pairs / step) * step


def _of_success(alpha: float, effect: float, discordance: float) -> float:
    if critical_of_spending(alpha) ** 2 * discordance > MOST_NEEDED * effect**2:
        return MOST_NEEDED
    return _SEQUENTIAL * (fixed_size(alpha, _POWER, effect, discordance) or MOST_NEEDED)


def _of_progress(alpha: float, effect: float, mean_square: float) -> float:
    """Smallest number with which the bets win enough, where success does not differ.

    With a lead S and a sum of squares Q, a stake s has made about exp(s * S - s^2 * Q / 2); all
    stakes from 0 to 1 are held alike, and half of the wealth is not in them.
    """
    import numpy as np

    stakes = np.linspace(0.025, 0.975, 20)
    deviation = sqrt(max(mean_square - effect**2, 0.0))

    def is_enough(pairs: int) -> bool:
        lead = pairs * effect - _UNLUCKY * deviation * sqrt(pairs)
        growth = np.minimum(stakes * lead - stakes**2 * pairs * mean_square / 2, 700.0)
        return bool(np.mean(np.exp(growth)) >= 2 / alpha - 1)

    return next((pairs for pairs in range(1, MOST_NEEDED) if is_enough(pairs)), MOST_NEEDED)
