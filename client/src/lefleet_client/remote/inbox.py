"""What a transport's threads leave for the one who waits for an answer."""

import threading
from collections import deque
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
    """Callbacks put, the caller takes, oldest first; one condition guards all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[Letter | Presence] = deque(maxlen=_LONGEST)
        self._is_closed = False

    def put(self, item: Letter | Presence) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify()

    def take(self, timeout_s: float) -> Letter | Presence | None:
        """None when nothing came in time, or the inbox is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, timeout_s)
            return self._items.popleft() if self._items else None

    @property
    def is_empty(self) -> bool:
        with self._changed:
            return not self._items

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
