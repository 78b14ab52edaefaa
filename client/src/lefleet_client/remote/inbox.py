"""What a transport's threads leave for the one who waits for an answer."""

import queue
from contextlib import suppress
from typing import NamedTuple

from lefleet_client.wire import Header

# More than a server sends between two calls; what is older than that nobody waits for.
_LONGEST = 64


class Letter(NamedTuple):
    """A message of the server, and when it came on the robot's own clock."""

    header: Header
    payload: bytes
    at_ns: int


class Presence(NamedTuple):
    """Whether the server is alive."""

    is_alive: bool


class Inbox:
    """Callbacks put, the caller takes, oldest first.

    The queue is of the one kind that a signal handler may put into, whatever it interrupts.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Letter | Presence | None] = queue.SimpleQueue()

    def put(self, item: Letter | Presence) -> None:
        with suppress(queue.Empty):
            while self._items.qsize() >= _LONGEST:
                self._items.get_nowait()
        self._items.put(item)

    def take(self, timeout_s: float) -> Letter | Presence | None:
        """None when nothing came in time, or the one who waits was woken."""
        with suppress(queue.Empty):
            return self._items.get(timeout=max(0.0, timeout_s))
        return None

    @property
    def is_empty(self) -> bool:
        return self._items.empty()

    def wake(self) -> None:
        self._items.put(None)
