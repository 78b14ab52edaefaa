"""Targets and whether they were met, as a table."""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.report import table


class Target(NamedTuple):
    """What was wanted, and what was found; smaller is better."""

    what: str
    limit: float
    found: float
    unit: str = ""

    @property
    def verdict(self) -> str:
        return "met" if self.found <= self.limit else "**MISSED**"


def target_table(targets: Iterable[Target]) -> str:
    return table(
        ("target", "at most", "found", "verdict"),
        (
            (one.what, f"{one.limit:g}{one.unit}", f"{one.found:.2f}{one.unit}", one.verdict)
            for one in targets
        ),
    )
