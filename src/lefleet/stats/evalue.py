"""E-values: evidence that may be looked at after every pair, and extended later.

An e-value is the wealth of a player who starts with 1 and bets against "not better" at fair odds.
Wealth reaches 1 / alpha with a chance of at most alpha, ever (Ville), so 1 / (largest wealth so
far) is a p-value at any time.
"""

from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Self

from lefleet.stats.inputs import Pair

if TYPE_CHECKING:
    from lefleet.stats.sign_test import Floats

_STAKES = 20


@dataclass(frozen=True)
class UniformMixture:
    """Bets on the wins among pairs that differ, for all chances from 1/2 to 1 alike.

    With d = wins + losses the wealth is sum over j <= wins of C(d + 1, j), divided by
    (d + 1) * C(d, wins). Both are exact integers: the incomplete beta function underflows.
    """

    wins: int = 0
    losses: int = 0
    tail: int = 1
    """Sum over j <= wins of C(d + 1, j)."""
    last: int = 1
    """C(d + 1, wins)."""

    def won(self) -> "UniformMixture":
        throws, wins = self.wins + self.losses + 1, self.wins
        following = self.last * (throws - wins) // (wins + 1)
        last = self.last * (throws + 1) // (wins + 1)
        return UniformMixture(wins + 1, self.losses, 2 * self.tail + following, last)

    def lost(self) -> "UniformMixture":
        throws, wins = self.wins + self.losses + 1, self.wins
        last = self.last * (throws + 1) // (throws + 1 - wins)
        return UniformMixture(wins, self.losses + 1, 2 * self.tail - self.last, last)

    @property
    def fraction(self) -> tuple[int, int]:
        """The e-value exactly, as numerator and denominator."""
        return self.tail, self.last * (self.losses + 1)

    @property
    def log_e(self) -> float:
        """Natural logarithm of the e-value: right for thousands of pairs."""
        above, below = self.fraction
        return log(above) - log(below)


@dataclass(frozen=True, eq=False)
class Betting:
    """Bets a share of the wealth on each difference D in [-1, 1]: the mean of prod(1 + s * D).

    The mean is over stakes s spread evenly between 0 and 1.
    """

    log_wealth: "Floats"
    """Of each stake."""

    @classmethod
    def start(cls) -> Self:
        import numpy as np

        return cls(np.zeros(_STAKES))

    def observe(self, difference: float) -> "Betting":
        import numpy as np

        stakes = (np.arange(_STAKES) + 0.5) / _STAKES
        return Betting(self.log_wealth + np.log1p(stakes * difference))

    @property
    def log_e(self) -> float:
        from scipy.special import logsumexp

        return float(logsumexp(self.log_wealth)) - log(_STAKES)


@dataclass(frozen=True, eq=False)
class EProcess:
    """The e-process of one side of a gate: its wealth now, and the largest so far.

    For success it is the uniform mixture. For progress it is the average of that and of the bets
    on the differences: an e-value against "better neither in success nor in mean progress".
    """

    binary: UniformMixture
    bets: Betting | None
    """None where only success counts."""
    log_e: float = 0.0
    log_max: float = 0.0

    @classmethod
    def start(cls, *, graded: bool) -> Self:
        return cls(UniformMixture(), Betting.start() if graded else None)

    def observe(self, pair: Pair) -> "EProcess":
        """One more pair, seen from the side that this evidence is for."""
        binary, bets = self.binary, self.bets
        if pair.difference:
            binary = binary.won() if pair.difference > 0 else binary.lost()
        log_e = binary.log_e
        if bets is not None:
            bets = bets.observe(pair.gain)
            log_e = _log_average(log_e, bets.log_e)
        return EProcess(binary, bets, log_e, max(self.log_max, log_e))

    @property
    def p_value(self) -> float:
        """min(1, 1 / largest wealth so far)."""
        return min(1.0, exp(-self.log_max))


def _log_average(first: float, second: float) -> float:
    """log((exp(first) + exp(second)) / 2) without overflow."""
    larger = max(first, second)
    return larger + log((exp(first - larger) + exp(second - larger)) / 2.0)
