"""Work that must not hold up whoever asks for it: done later, or counted as skipped."""

import logging
import queue
import threading
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
_CLOSE_S = 2.0


class Background[T]:
    """Hands items to `work` on one thread, in order; `offer` returns at once, whatever `work` does.

    Any thread may offer. What `work` raises is logged, the first time only, and counted. The thread
    is a daemon: one that hangs in a full pipe does not keep the process alive.
    """

    def __init__(self, name: str, work: Callable[[T], None], room: int) -> None:
        self._work = work
        self._items: queue.Queue[T | None] = queue.Queue(room)
        self._lock = threading.Lock()
        self._skipped = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def skipped(self) -> int:
        """Items that were lost: there was no room for them, or the work on them failed."""
        return self._skipped

    def offer(self, item: T) -> None:
        if self._is_closed:
            self._skip()
            return
        try:
            self._items.put_nowait(item)
        except queue.Full:
            self._skip()

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Finish what was offered, within the time; whether it was finished."""
        self._is_closed = True
        try:
            self._items.put(None, timeout=timeout_s)
        except queue.Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            try:
                self._work(item)
            except Exception as error:  # noqa: BLE001 - later items may be fine again
                if self._skip() == 1:
                    _LOG.warning("%s: %s; said once, then only counted", self._thread.name, error)

    def _skip(self) -> int:
        with self._lock:
            self._skipped += 1
            return self._skipped
