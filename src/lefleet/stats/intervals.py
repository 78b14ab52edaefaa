"""Intervals: of a success rate, and of the mean difference at every look at once."""

from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from lefleet.stats.sign_test import Floats


def exact_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson: covers the true rate with at least `confidence`, whatever the rate is."""
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must lie in 0..{trials}, got {successes}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    from scipy.special import betaincinv

    tail = (1.0 - confidence) / 2.0
    failures = trials - successes
    low = 0.0 if successes == 0 else float(betaincinv(successes, failures + 1, tail))
    high = 1.0 if failures == 0 else float(betaincinv(successes + 1, failures, 1.0 - tail))
    return low, high


def least_difference(won: int, lost: int, pairs: int, confidence: float = 0.95) -> float:
    """Lower limit of the share of pairs won less the share lost; at least `confidence` is kept.

    The exact limits of both shares, each with half of the error: won at least so often, lost at
    most so often. Simple, and wider than it had to be.
    """
    return exact_interval(won, pairs, confidence)[0] - exact_interval(lost, pairs, confidence)[1]


# Candidate means, on the scale from 0 to 1: steps of 0.0025 of a difference.
_CANDIDATES = 801
# A stake never risks more than this share of the wealth.
_LARGEST = 0.5
# Bets are sized for this share of the planned pairs: narrow at the end and not much wider before.
_HORIZON = 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """An interval of the mean difference that is right at every look at once.

    For each candidate mean m there are two bets on differences in [-1, 1]: that they lie above m,
    and below it. Where m is the true mean, neither wealth ever reaches 2 / (1 - confidence) with
    a chance of more than half of 1 - confidence. So a mean is out when one of its bets gets there.
    The first one's wealth falls with m and the second one's rises, so an interval is left.
    Stakes are sqrt(2 log(2 / alpha) / (variance so far * horizon)), fixed before each difference
    is seen.
    """

    alpha: float
    """1 - confidence."""
    planned: int
    """Pairs that the stakes are sized for; the interval is right with any number."""
    above: "Floats"
    below: "Floats"
    """Log wealth of the two bets at each candidate mean."""
    count: int = 0
    total: float = 0.5
    """Sum on the scale from 0 to 1, with half an observation in the middle."""
    squares: float = 0.25
    """Sum of squared deviations, with the largest possible one to begin with."""
    interval: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def start(cls, confidence: float, planned: int) -> Self:
        import numpy as np

        nothing = np.zeros(_CANDIDATES)
        return cls(1.0 - confidence, planned, nothing, nothing)

    def observe(self, difference: float) -> "ConfidenceSequence":
        import numpy as np

        value = (difference + 1.0) / 2.0
        count = self.count + 1
        variance = self.squares / count
        horizon = max(float(count), self.planned * _HORIZON)
        stake = sqrt(2.0 * log(2.0 / self.alpha) / (variance * horizon))
        means = np.linspace(0.0, 1.0, _CANDIDATES)
        smallest = 1.0 / _CANDIDATES
        up = np.minimum(stake, _LARGEST / np.maximum(means, smallest))
        down = np.minimum(stake, _LARGEST / np.maximum(1.0 - means, smallest))
        above = self.above + np.log1p(up * (value - means))
        below = self.below + np.log1p(down * (means - value))
        total = self.total + value
        deviation = value - total / (count + 1)
        return ConfidenceSequence(
            self.alpha,
            self.planned,
            above,
            below,
            count,
            total,
            self.squares + deviation**2,
            self._shrunk(above, below),
        )

    def _shrunk(self, above: "Floats", below: "Floats") -> tuple[float, float]:
        """The interval without what is out now; the last one where nothing would be left."""
        import numpy as np

        limit = log(2.0 / self.alpha)
        low, high = self.interval
        # Everything up to the last candidate that is out is out, so its place is a valid bound.
        too_low = int(np.count_nonzero(above >= limit))
        too_high = int(np.count_nonzero(below >= limit))
        if too_low:
            low = max(low, _difference_at(too_low - 1))
        if too_high:
            high = min(high, _difference_at(_CANDIDATES - too_high))
        return (low, high) if low < high else self.interval


def _difference_at(index: int) -> float:
    return (2 * index - (_CANDIDATES - 1)) / (_CANDIDATES - 1)
