"""How often something may happen that other machines cause: opening sessions, log lines."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

OPENS_OF_ONE = 20
"""Sessions that one name may open at once; one more after each fifth of a second."""
OPENS_IN_ALL = 200
"""The same for all names together, beside one for each place; this many more in a second."""
_OF_ONE_PER_S = 5.0
_REMEMBERED = 1024


class TokenBucket:
    """Lets `size` events pass at once, and `per_s` more in each second. Has no lock.

    >>> bucket = TokenBucket(size=2, per_s=1, now_s=0)
    >>> [bucket.take(now_s) for now_s in (0, 0, 0, 1, 1)]
    [True, True, False, True, False]
    """

    def __init__(self, size: float, per_s: float, now_s: float) -> None:
        self._size = self._tokens = size
        self._per_s = per_s
        self._refilled_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether one more may pass now."""
        refill = (now_s - self._refilled_s) * self._per_s
        self._tokens = min(self._size, self._tokens + refill)
        self._refilled_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class OpenLimiter:
    """Limits how often sessions are opened, under one name and in all.

    An open costs a server little, but not nothing: sessions that replace each other at full rate
    would slow down all robots. One lock guards the buckets. Only the latest names are remembered.
    """

    def __init__(self, max_sessions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._in_all = TokenBucket(max_sessions + OPENS_IN_ALL, OPENS_IN_ALL, clock())
        self._by_segment: OrderedDict[str, TokenBucket] = OrderedDict()

    def excess(self, segment: str) -> str:
        """Why this client has to wait before it opens a session; empty if it may do so now."""
        now_s = self._clock()
        with self._lock:
            bucket = self._by_segment.pop(segment, None)
            bucket = bucket or TokenBucket(OPENS_OF_ONE, _OF_ONE_PER_S, now_s)
            self._by_segment[segment] = bucket
            if len(self._by_segment) > _REMEMBERED:
                self._by_segment.popitem(last=False)
            if not bucket.take(now_s):
                return (
                    f"more than {OPENS_OF_ONE} sessions were opened under this name within "
                    "seconds; give each process its own client_id, then try again"
                )
            if not self._in_all.take(now_s):
                return f"more than {OPENS_IN_ALL} sessions a second are being opened; try again"
        return ""
