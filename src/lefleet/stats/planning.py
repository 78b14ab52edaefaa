"""Before a gate: what a test of fixed size needs, and whether there is room for an improvement."""

from math import floor, log2

from lefleet.errors import BadInput
from lefleet.stats.inputs import require_alpha, require_share

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


_HARDLY = 0.1
_USUAL_POWER = 0.8


def has_room(level: float, gain: float, pairs: int) -> bool:
    """Whether a gate of `pairs` pairs may show an improvement of `gain`.

    In the best case the candidate wins a share `gain` of the pairs and loses none. There is no room
    where even that has a chance below 0.1 to be shown.
    """
    from scipy.stats import binom

    return bool(binom.sf(_wins_needed(level) - 1, pairs, gain) >= _HARDLY)


def pairs_for_room(level: float, gain: float) -> int:
    """Pairs that show an improvement of `gain` with a chance of 0.8 where none is lost."""
    from scipy.stats import nbinom

    wins = _wins_needed(level)
    return wins + int(nbinom.ppf(_USUAL_POWER, wins, gain))


def _wins_needed(level: float) -> int:
    """Without a loss: as many heads in a row have at most the chance `level`."""
    return floor(-log2(level)) + 1


def possible_pairs(max_pairs: int, initial_states: int, tasks: int) -> int:
    """Pairs that a gate can have: a finite list of initial states, 0 for none, is used up once."""
    listed = initial_states * tasks
    return min(max_pairs, listed) if listed else max_pairs
