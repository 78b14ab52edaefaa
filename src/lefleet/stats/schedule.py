"""The level of each gate of a run, so that a promise holds for the whole run.

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

from lefleet.stats.checks import require_alpha

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
