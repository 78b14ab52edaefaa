"""The exact conditional alpha-spending sign test: it may be looked at again and again.

Only pairs that differ count. If neither policy is better, each of them is a fair coin, so the
distribution of the wins is known exactly, whatever the success rates are. After `pairs` of
`max_pairs`, at most alpha * pairs / max_pairs of it may have led to a rejection.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lefleet.stats.checks import require_alpha, require_count
from lefleet.stats.ladder import Ladder
from lefleet.stats.null_mass import ROUND_UP, add_discordant, affordable, no_pairs, remove, tails

if TYPE_CHECKING:
    from lefleet.stats.null_mass import Counts, Floats


@dataclass(frozen=True, eq=False)
class Spending:
    """Gates of one level and size side by side, a row each.

    The wins are not in here: what rejects depends only on how many pairs differ.
    """

    alpha: float
    max_pairs: int
    discordant: "Counts"
    mass: "Floats"
    """Chance of each number of wins without a rejection so far."""
    spent: "Floats"
    """Chance of a rejection so far."""
    boundary: "Counts"
    """At the last look: the least number of wins that rejects."""
    reached: "Floats"
    """At the last look: chance of a rejection before, or of at least as many wins now."""

    @classmethod
    def start(cls, alpha: float, max_pairs: int, rows: int = 1) -> Self:
        import numpy as np

        require_alpha(alpha)
        require_count("max_pairs", max_pairs)
        none = np.zeros(rows, dtype=np.int64)
        mass = no_pairs(rows)
        return cls(alpha, max_pairs, none, mass, np.zeros(rows), none + 1, tails(mass))

    def look(self, pairs: int, discordant: "Counts") -> "Spending":
        """After `pairs` pairs, `discordant[row]` of which differ."""
        import numpy as np

        mass = add_discordant(self.mass, discordant - self.discordant)
        reached = (self.spent[:, None] + tails(mass)) * ROUND_UP
        allowed = self.alpha * (pairs / self.max_pairs) / ROUND_UP
        # What was spent before is below what may be spent now: out of reach is always affordable.
        boundary = affordable(reached, np.full(len(mass), allowed))
        return Spending(
            self.alpha,
            self.max_pairs,
            discordant,
            remove(mass, boundary),
            reached[np.arange(len(mass)), boundary],
            boundary,
            reached,
        )


@dataclass(frozen=True, eq=False)
class SignTest:
    """One gate: is the candidate better, is it worse, each at level alpha.

    Losses are distributed as wins are, so one distribution serves both questions.
    """

    pairs: int
    wins: int
    losses: int
    p_better: float
    p_worse: float
    spending: Spending
    ladder: Ladder

    @classmethod
    def start(cls, alpha: float, max_pairs: int) -> Self:
        return cls(0, 0, 0, 1.0, 1.0, Spending.start(alpha, max_pairs), Ladder.start(alpha))

    @property
    def better(self) -> bool:
        return self.p_better <= self.spending.alpha

    @property
    def worse(self) -> bool:
        return self.p_worse <= self.spending.alpha

    def look(self, pairs: int, wins: int, losses: int) -> "SignTest":
        """After `pairs` pairs in all; what has been rejected stays rejected."""
        import numpy as np

        if not (self.pairs < pairs <= self.spending.max_pairs and wins + losses <= pairs):
            raise ValueError(f"no look after {pairs} pairs with {wins} wins and {losses} losses")
        if self.better or self.worse:
            return self
        spending = self.spending.look(pairs, np.array([wins + losses]))
        share = pairs / self.spending.max_pairs
        fresh = wins + losses - self.wins - self.losses
        ladder = self.ladder.look(share, fresh, int(spending.boundary[0]))

        def p_value(count: int, before: float) -> float:
            if count >= spending.boundary[0]:
                return float(spending.reached[0, count])
            return min(before, ladder.level(count))

        return SignTest(
            pairs,
            wins,
            losses,
            p_value(wins, self.p_better),
            p_value(losses, self.p_worse),
            spending,
            ladder,
        )
