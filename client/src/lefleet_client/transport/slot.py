"""A mailbox that holds only the newest item: control never works on old news."""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """One item at most; a newer one overwrites it, and is counted.

    Any thread may call any method. One condition guards item and count; it is held for
    assignments only, so `put` fits into a transport's callback.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[T] = []
        self._superseded = 0
        self._is_closed = False

    def put(self, item: T) -> None:
        with self._changed:
            self._superseded += len(self._items)
            self._items = [item]
            self._changed.notify()

    def take(self, timeout_s: float) -> T | None:
        """The newest item, once; None when none came in time or the slot is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, timeout_s)
            return self._items.pop() if self._items else None

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def superseded(self) -> int:
        """How many items were overwritten before anybody took them."""
        with self._changed:
            return self._superseded
