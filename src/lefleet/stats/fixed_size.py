"""What a test of a fixed size would need: the measure of the pairs that a gate saves."""

from lefleet.errors import BadInput
from lefleet.stats.checks import require_alpha, require_share

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

    None where it takes more than anybody runs.
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
