"""After a comparison without a clear answer: about how many pairs would give one."""

from math import ceil, floor, inf, log10, sqrt

from lefleet.records.evaluate import MOST_NEEDED
from lefleet.records.fields import Metric
from lefleet.stats.futility import critical_of_betting, critical_of_spending
from lefleet.stats.inputs import require_alpha
from lefleet.stats.planning import fixed_size

_POWER = 0.8
_DEVIATIONS = 0.84
"""Standard deviations beyond the boundary for that power."""
# Pairs that a gate must plan for this power, relative to a fixed-size test.
_SEQUENTIAL = 1.1


def needed_pairs(alpha: float, difference: float, mean_square: float, metric: Metric) -> int:
    """About how many pairs a new gate needs to show this difference, either way, 8 times in 10.

    `mean_square` is that of the differences; for success it is the share of pairs that differ. The
    result is rounded up to two digits, and at most `MOST_NEEDED`.
    """
    require_alpha(alpha)
    effect = min(abs(difference), 0.99)
    pairs = _approximate(alpha, effect, mean_square, metric)
    if metric == "success" and pairs < MOST_NEEDED:
        # Few pairs are counted exactly: the normal approximation is for many.
        pairs = _SEQUENTIAL * (fixed_size(alpha, _POWER, effect, mean_square) or inf)
    if pairs >= MOST_NEEDED:
        return MOST_NEEDED
    step = 10 ** max(floor(log10(pairs)) - 1, 0)
    return ceil(pairs / step) * step


def _approximate(alpha: float, effect: float, mean_square: float, metric: Metric) -> float:
    """As `conditional_power` has it at the beginning, solved for the number of pairs."""
    if effect == 0.0:
        return inf
    critical = critical_of_spending(alpha) if metric == "success" else critical_of_betting(alpha)
    spread = sqrt(max(mean_square - effect**2, 0.0))
    return ((critical * sqrt(mean_square) + _DEVIATIONS * spread) / effect) ** 2
