"""Outcomes for tests: pairs by letter, and all ways in which a gate can go."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from lefleet.stats import Pair

WIN, LOSS, TIE = Pair(1, 1.0), Pair(-1, -1.0), Pair(0, 0.0)
LETTERS = {"w": WIN, "l": LOSS, "-": TIE}


def pairs(text: str) -> list[Pair]:
    return [LETTERS[letter] for letter in text]


def every_way(differs: list[bool]) -> Iterator[list[Pair]]:
    """All outcomes of these pairs, equally likely if neither policy is better."""
    for wins in product((WIN, LOSS), repeat=sum(differs)):
        coins = iter(wins)
        yield [next(coins) if different else TIE for different in differs]


def chance(favourable: int, differs: list[bool]) -> Fraction:
    return Fraction(favourable, 2 ** sum(differs))
