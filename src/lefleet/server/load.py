"""How busy the device is."""

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 5.0


class BusyMeter:
    """The share of the last seconds that was spent on inference, from 0 to 1.

    One thread adds, any thread reads; one lock guards the list.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_s = clock()
        self._spans: deque[tuple[float, float]] = deque()

    def add(self, start_s: float, end_s: float) -> None:
        with self._lock:
            self._spans.append((start_s, end_s))
            self._drop_old(end_s)

    def read(self) -> float:
        now = self._clock()
        with self._lock:
            self._drop_old(now)
            since = max(now - WINDOW_S, self._begun_s)
            busy = sum(end - max(start, since) for start, end in self._spans)
            return min(1.0, max(0.0, busy / (now - since))) if now > since else 0.0

    def _drop_old(self, now: float) -> None:
        while self._spans and self._spans[0][1] < now - WINDOW_S:
            self._spans.popleft()
