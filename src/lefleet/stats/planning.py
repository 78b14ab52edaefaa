"""Before a gate: its level, so that a promise holds for the whole run, and a fixed test's size.

    run   With a chance of at least 1 - alpha, a run promotes no candidate that is not better,
          however many gates it has: the levels add up to alpha at most.
    rate  Of all promotions of a run, at most a share alpha is expected to be false, at any time.
          A run of many gates will make false promotions, and each promotion earns level for
          later gates.

Both need fresh pairs at every gate: a gate must err with at most its level whatever happened
before. Under that alone, `rate` bounds (expected false promotions) / (expected promotions, at
least 1); where gates do not influence each other it bounds the expected share itself.
"""

from collections.abc import Sequence
from math import pi
from typing import Literal

from lefleet.errors import BadInput
from lefleet.stats.inputs import require_alpha, require_share

type Guarantee = Literal["run", "rate"]

# The sum of j ** -1.6 over all j, rounded up.
_EXPONENT = 1.6
_ZETA = 2.2858


def gate_alpha(guarantee: Guarantee, alpha: float, promotions: Sequence[bool]) -> float:
    """Level of the next gate, where `promotions` says of each gate before whether it promoted."""
    require_alpha(alpha)
    number = len(promotions) + 1
    if guarantee == "run":
        return alpha * 6.0 / (pi * number) ** 2
    return _lord(alpha, number, [at for at, promoted in enumerate(promotions, 1) if promoted])


def _lord(alpha: float, number: int, promoted: Sequence[int]) -> float:
    """LORD++ (Ramdas, Yang, Wainwright and Jordan 2017) with a starting wealth of alpha / 2.

    level = g(k) * alpha/2 + g(k - t1) * alpha/2 + sum over later promotions t of g(k - t) * alpha,
    with g(j) proportional to j ** -1.6.
    """
    level = _share(number) * alpha / 2.0
    for earned, at in enumerate(promoted):
        level += _share(number - at) * (alpha / 2.0 if earned == 0 else alpha)
    return level


def _share(age: int) -> float:
    """Of what was earned `age` gates ago; all ages together add up to at most 1."""
    return age**-_EXPONENT / _ZETA


_MOST = 20_000


def fixed_power(pairs: int, alpha: float, effect: float, discordance: float) -> float:
    """Power of the exact sign test (McNemar) on `pairs` pairs, `discordance` of which differ.

    The number that differs is binomial, and of those the candidate wins (1 + effect /
    discordance) / 2.
    """
    import numpy as np
    from scipy.stats import binom

    different = np.arange(pairs + 1)
    wins_needed = binom.isf(alpha, different, 0.5) + 1
    rejected = binom.sf(wins_needed - 1, different, (1.0 + effect / discordance) / 2.0)
    return float(np.sum(binom.pmf(different, pairs, discordance) * rejected))


def fixed_size(alpha: float, power: float, min_effect: float, discordance: float) -> int | None:
    """Pairs with which a fixed-size exact sign test proves `min_effect` with this `power`.

    None where that is more than 20,000.
    """
    require_alpha(alpha)
    require_share("power", power)
    require_share("min_effect", min_effect)
    if not min_effect <= discordance <= 1.0:
        raise BadInput(
            f"discordance: must lie between min_effect ({min_effect}) and 1, got {discordance}.",
            "Policies that differ by min_effect differ in at least that share of the pairs.",
        )

    def enough(pairs: int) -> bool:
        return fixed_power(pairs, alpha, min_effect, discordance) >= power

    above = 1
    while not enough(above):
        above *= 2
        if above > _MOST:
            return None
    below = above // 2
    while above - below > 1:
        middle = (above + below) // 2
        below, above = (below, middle) if enough(middle) else (middle, above)
    return above
