"""A p-value for a gate that has not rejected: the same gate at a ladder of higher levels.

Smaller levels of a spending test are not always nested in larger ones: spending early can leave
too little for later. So "the smallest alpha that would have rejected" is no valid p-value by
itself. Here nesting is built in. The gate at level a rejects all that the gate at alpha rejects,
which costs at most alpha, and may spend a - alpha on more; it rejects only what every higher
level rejects too.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lefleet.stats.null_mass import ROUND_UP, add_discordant, affordable, no_pairs, remove, tails

if TYPE_CHECKING:
    from lefleet.stats.null_mass import Counts, Floats

_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
_DECADES = range(-12, 0)


@dataclass(frozen=True, eq=False)
class Ladder:
    """The levels above alpha, a row each."""

    alpha: float
    levels: "Floats"
    mass: "Floats"
    spent: "Floats"
    """What each level has spent beyond alpha's rejections."""
    boundary: "Counts"
    """At the last look: the least number of wins that each level rejects."""

    @classmethod
    def start(cls, alpha: float) -> Self:
        import numpy as np

        every = [step * 10.0**decade for decade in _DECADES for step in _STEPS]
        levels = np.array([level for level in every if level > alpha])
        rows = len(levels)
        unreachable = np.ones(rows, dtype=np.int64)
        return cls(alpha, levels, no_pairs(rows), np.zeros(rows), unreachable)

    def look(self, share: float, fresh: int, alphas_boundary: int) -> "Ladder":
        """With `share` of all pairs seen, `fresh` of them differing since the last look."""
        import numpy as np

        rows = len(self.levels)
        mass = add_discordant(self.mass, np.full(rows, fresh))
        mass = remove(mass, np.full(rows, alphas_boundary))
        reached = (self.spent[:, None] + tails(mass)) * ROUND_UP
        own = affordable(reached, (self.levels - self.alpha) * share / ROUND_UP**2)
        boundary = np.maximum.accumulate(own[::-1])[::-1]
        spent = reached[np.arange(rows), boundary]
        return Ladder(self.alpha, self.levels, remove(mass, boundary), spent, boundary)

    def level(self, wins: int) -> float:
        """The smallest level that rejects `wins` at the last look; 1 where none does."""
        rejecting = self.levels[wins >= self.boundary]
        return float(rejecting[0]) if len(rejecting) else 1.0
