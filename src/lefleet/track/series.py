"""What is logged: series of numbers and words by step."""

import hashlib
from typing import NamedTuple

Value = float | int | str


class Point(NamedTuple):
    """What a series says at one step."""

    step: int
    at: float
    """Seconds since 1970."""
    values: dict[str, Value]


class Series(NamedTuple):
    """Points by step. A point that was made once is never made differently."""

    name: str
    """For people: `demo`, `demo:1 gate`."""
    kind: str
    """loop, gate or train."""
    group: str
    """Run that it belongs to."""
    id: str
    """The same for the same series of the same run, and for no other."""
    config: dict[str, Value]
    points: tuple[Point, ...]


def series_id(run: str, created_at: float, part: str) -> str:
    """Of one series of one run: runs of other work folders may have its name."""
    return hashlib.sha256(f"{run} {created_at!r} {part}".encode()).hexdigest()[:16]
