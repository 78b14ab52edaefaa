"""The level of each gate of a run, so that one promise holds for the whole run.

    run   With a chance of at least 1 - alpha, a run promotes no candidate that is not better,
          however many gates it has.
    rate  Of all promotions of a run, at most a share alpha is expected to be false, at any time.
          A run of many gates will make false promotions, and each promotion earns level for
          later gates.

Both need fresh pairs at every gate: a gate must err with at most its level whatever happened
before. Under that alone, `rate` bounds (expected false promotions) / (expected promotions, at
least 1); where gates do not influence each other it bounds the expected share itself.

With `run`, alpha is split into shares before the first gate, and a gate that has begun has used
its share. A gate tests for better at its share plus the whole level of the gate before, if that
one said better; it tests for worse at its share alone. Why this keeps the promise: let Z be 1 once
a candidate was wrongly called better, and until then what the last gate passes on plus all shares
not used yet. At first Z is alpha at most. A gate takes its level out of Z. If its candidate is
not better, it puts a 1 in with at most that chance; if it is, it puts back its level or nothing.
So Z never grows on average, and the chance of a wrong "better" is at most its first value. (For
hypotheses fixed in advance this is the fallback procedure of Wiens, 2003.)
"""

from collections.abc import Sequence
from math import pi
from typing import Literal

from lefleet.records import GateLevel
from lefleet.stats.inputs import require_alpha

type Guarantee = Literal["run", "rate"]

_PLANNED = 0.8
"""Of alpha, for the gates that the first cycle budget plans; the rest is the reserve."""
_MOST_EQUAL = 6
"""Up to this many planned gates get equal shares; of more, later ones get less."""
# The sum of j ** -1.6 over all j, rounded up.
_EXPONENT = 1.6
_ZETA = 2.2858


def gate_level(
    guarantee: Guarantee, alpha: float, planned: int, better: Sequence[bool]
) -> GateLevel:
    """Level of the next gate, where `better` says of each gate before whether that was its verdict.

    `planned` gates were planned before the first one, whatever the budget is now.
    """
    require_alpha(alpha)
    number = len(better) + 1
    if guarantee == "rate":
        level = _lord(alpha, number, [at for at, said in enumerate(better, 1) if said])
        return GateLevel(better=level, worse=level, guarantee="rate", source="rate", share=level)
    streak = 0
    while streak < len(better) and better[-1 - streak]:
        streak += 1
    share = _share(alpha, planned, number)
    passed_on = sum((_share(alpha, planned, number - back) for back in range(1, streak + 1)), 0.0)
    return GateLevel(
        better=share + passed_on,
        worse=share,
        guarantee="run",
        source="planned" if number <= planned else "reserve",
        share=share,
        passed_on=passed_on,
    )


def _share(alpha: float, planned: int, number: int) -> float:
    """Of gate `number`; all shares together are alpha at most."""
    if number > planned:
        reserve = alpha if planned == 0 else alpha * (1.0 - _PLANNED)
        return reserve * _falling(number - planned)
    if planned <= _MOST_EQUAL:
        return alpha * _PLANNED / planned
    return alpha * _PLANNED * _falling(number)


def _falling(number: int) -> float:
    """Adds up to 1 over all numbers."""
    return 6.0 / (pi * number) ** 2


def _lord(alpha: float, number: int, promoted: Sequence[int]) -> float:
    """LORD++ (Ramdas, Yang, Wainwright and Jordan 2017) with a starting wealth of alpha / 2.

    level = g(k) * alpha/2 + g(k - t1) * alpha/2 + sum over later promotions t of g(k - t) * alpha,
    with g(j) proportional to j ** -1.6.
    """
    level = _aged(number) * alpha / 2.0
    for earned, at in enumerate(promoted):
        level += _aged(number - at) * (alpha / 2.0 if earned == 0 else alpha)
    return level


def _aged(age: int) -> float:
    """Of what was earned `age` gates ago; all ages together add up to at most 1."""
    return age**-_EXPONENT / _ZETA
