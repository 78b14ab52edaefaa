"""The exact sign test: is one side of a fair coin showing too often?"""

from math import comb


def sign_test(wins: int, losses: int) -> float:
    """Chance of at least `wins` heads in `wins + losses` throws of a fair coin.

    Exact integers throughout, so it is right for no throw at all and for thousands.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"counts must not be negative, got {wins} and {losses}")
    throws = wins + losses
    return sum(comb(throws, heads) for heads in range(wins, throws + 1)) / (1 << throws)
