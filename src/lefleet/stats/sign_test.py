"""The exact conditional alpha-spending sign test: it may be looked at again and again.

Only pairs that differ count. If neither policy is better, each of them is a fair coin, so the
distribution of the wins is known exactly, whatever the success rates are. After `pairs` of
`max_pairs`, at most alpha * pairs / max_pairs of it may have led to a rejection.

The first functions compute that distribution while gates still run. Rows are gates or levels side
by side, columns are numbers of wins. Every rounding is upwards, so a chance that is computed here
is never smaller than the true one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lefleet.stats.inputs import require_alpha, require_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    type Floats = NDArray[np.float64]
    type Counts = NDArray[np.int64]


# More than the relative error of an addition and a multiplication.
ROUND_UP = 1.0 + 2.0**-51
# More than all that is lost to numbers too small for a float.
_UNDERFLOW = 1e-300


def no_pairs(rows: int) -> "Floats":
    """Before the first pair: no wins, for certain."""
    import numpy as np

    return np.ones((rows, 1))


def add_discordant(mass: "Floats", fresh: "Counts") -> "Floats":
    """After `fresh[row]` more pairs that differ: for each, S[k] becomes (S[k] + S[k - 1]) / 2."""
    import numpy as np

    added = int(fresh.max(initial=0))
    width = mass.shape[1]
    grown = np.zeros((len(mass), width + added))
    grown[:, :width] = mass
    for step in range(added):
        half = np.where(fresh > step, 0.5, 0.0)[:, None]
        used = grown[:, : width + step + 1]
        moved = used[:, :-1] * half
        used *= (1.0 - half) * ROUND_UP
        used[:, 1:] += moved * ROUND_UP
    return grown * ROUND_UP**added


def tails(mass: "Floats") -> "Floats":
    """Chance of at least k wins in column k; the last column, out of reach, is 0."""
    import numpy as np

    width = mass.shape[1]
    result = np.zeros((len(mass), width + 1))
    np.cumsum(mass[:, ::-1], axis=1, out=result[:, -2::-1])
    result[:, :-1] *= 1.0 + width * 2.0**-51
    result[:, :-1] += _UNDERFLOW
    return result


def affordable(tail: "Floats", budget: "Floats") -> "Counts":
    """For each row the smallest number of wins whose tail does not exceed its budget."""
    import numpy as np

    return np.sum(tail > budget[:, None], axis=1, dtype=np.int64)


def remove(mass: "Floats", boundary: "Counts") -> "Floats":
    """What is left when gates with at least `boundary[row]` wins stop."""
    import numpy as np

    width = max(int(boundary.max(initial=1)), 1)
    kept = mass[:, :width]
    return np.where(np.arange(kept.shape[1]) < boundary[:, None], kept, 0.0)


_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
_DECADES = range(-12, 0)


@dataclass(frozen=True, eq=False)
class Ladder:
    """The p-value of a gate that has not rejected: the same gate at levels above alpha, a row each.

    Smaller levels of a spending test are not always nested in larger ones: spending early can leave
    too little for later. So "the smallest alpha that would have rejected" is no valid p-value by
    itself. Here nesting is built in. The gate at level a rejects all that the gate at alpha
    rejects, which costs at most alpha, and may spend a - alpha on more; it rejects only what every
    higher level rejects too.
    """

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
    """One question of one gate: are there more wins than chance explains, at level alpha?

    Losses are distributed as wins are: given them as wins, the test asks for worse.
    """

    pairs: int
    wins: int
    losses: int
    p_value: float
    spending: Spending
    ladder: Ladder

    @classmethod
    def start(cls, alpha: float, max_pairs: int) -> Self:
        return cls(0, 0, 0, 1.0, Spending.start(alpha, max_pairs), Ladder.start(alpha))

    @property
    def proven(self) -> bool:
        return self.p_value <= self.spending.alpha

    def look(self, pairs: int, wins: int, losses: int) -> "SignTest":
        """After `pairs` pairs in all; what has been rejected stays rejected."""
        import numpy as np

        if not (self.pairs < pairs <= self.spending.max_pairs and wins + losses <= pairs):
            raise ValueError(f"no look after {pairs} pairs with {wins} wins and {losses} losses")
        if self.proven:
            return self
        spending = self.spending.look(pairs, np.array([wins + losses]))
        share = pairs / self.spending.max_pairs
        fresh = wins + losses - self.wins - self.losses
        ladder = self.ladder.look(share, fresh, int(spending.boundary[0]))
        if wins >= spending.boundary[0]:
            p_value = float(spending.reached[0, wins])
        else:
            p_value = min(self.p_value, ladder.level(wins))
        return SignTest(pairs, wins, losses, p_value, spending, ladder)
