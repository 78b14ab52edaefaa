"""How a stage says how far it is."""

from collections.abc import Callable
from typing import NamedTuple


class Update(NamedTuple):
    """One report. `done` of `total` in `unit`s; `detail` is a short remark such as a loss."""

    done: int
    total: int
    unit: str
    detail: str = ""


Progress = Callable[[Update], None]


def silent(update: Update) -> None:
    """Report to nobody."""
