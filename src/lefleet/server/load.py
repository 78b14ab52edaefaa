"""How busy the device is."""

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 5.0


class BusyMeter:
    """The share of the last seconds that was spent on inference, from 0 to 1.

    One thread adds spans in the order of time, any thread reads; one lock guards spans and sum.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_s = clock()
        self._spans: deque[tuple[float, float]] = deque()
        self._busy_s = 0.0

    def add(self, start_s: float, end_s: float) -> None:
        with self._lock:
            self._spans.append((start_s, end_s))
            self._busy_s += end_s - start_s
            self._drop_before(end_s - WINDOW_S)

    def read(self) -> float:
        now = self._clock()
        with self._lock:
            since = max(now - WINDOW_S, self._begun_s)
            self._drop_before(since)
            too_early = max(0.0, since - self._spans[0][0]) if self._spans else 0.0
            length = now - since
            return min(1.0, max(0.0, (self._busy_s - too_early) / length)) if length > 0 else 0.0

    def _drop_before(self, since: float) -> None:
        while self._spans and self._spans[0][1] <= since:
            start_s, end_s = self._spans.popleft()
            self._busy_s -= end_s - start_s
        if not self._spans:
            self._busy_s = 0.0
