"""Outcomes for tests: pairs by letter, and all ways in which a gate can go."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from lefleet.stats import Gate, GateRule, Pair
from lefleet.stats.evalue import UniformMixture

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


def judged(rule: GateRule, outcomes: list[Pair]) -> Gate:
    """A gate after all of these pairs."""
    return Gate.start(rule).observe(outcomes)


def conclusion(gate: Gate) -> tuple:
    """All that a gate says."""
    return gate.state, gate.pairs, gate.wins, gate.losses, gate.difference, gate.looks


def mixture(wins: int, losses: int) -> UniformMixture:
    """The e-value after so many wins and losses."""
    found = UniformMixture()
    for _ in range(wins):
        found = found.won()
    for _ in range(losses):
        found = found.lost()
    return found
