"""Whose turn it is."""

from collections.abc import Iterable
from typing import Protocol


class Scheduler(Protocol):
    """Picks the next session among those that wait; called with the board's lock held."""

    def pick(self, waiting: Iterable[str]) -> str:
        """One of `waiting`, which is not empty."""

    def forget(self, session_id: str) -> None:
        """The session has ended."""


class RoundRobin:
    """The one who has waited the most turns goes next: nobody starves, whoever else asks.

    A newcomer joins at the end of the row, so that coming anew for each request gains nothing.

    >>> turns = RoundRobin()
    >>> [turns.pick(["a", "b"]) for _ in range(4)]
    ['a', 'b', 'a', 'b']
    """

    def __init__(self) -> None:
        self._turn = 0
        self._last: dict[str, int] = {}

    def pick(self, waiting: Iterable[str]) -> str:
        chosen = min(waiting, key=lambda session_id: self._last.setdefault(session_id, self._turn))
        self._turn += 1
        self._last[chosen] = self._turn
        return chosen

    def forget(self, session_id: str) -> None:
        self._last.pop(session_id, None)
