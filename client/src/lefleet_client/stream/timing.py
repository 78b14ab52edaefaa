"""Round trips, and what follows from them: buffer, delay, and the age that is allowed."""

import math
from collections import deque

WINDOW = 100
"""Round trips that count: one slow answer is forgotten after so many others."""
USUAL_AGE_S = 3.0
_ROOM = 1.25
_MARGIN = 0.25


class RoundTrips:
    """Seconds from an observation to its merged chunk, the newest ones; one thread adds."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=WINDOW)
        self.last_s = 0.0
        self.p95_s = 0.0

    def add(self, seconds: float) -> None:
        self._values.append(seconds)
        self.last_s = seconds
        # Not numpy's quantile: it takes so long that a control loop would wait for Python's lock.
        self.p95_s = sorted(self._values)[math.ceil(0.95 * len(self._values)) - 1]


def buffer_s(p95_s: float, fps: float) -> float:
    """How much playback must be left when the next chunk is asked for: a round trip and a little.

    >>> buffer_s(0.2, fps=10)
    0.3
    """
    return round(p95_s + max(1 / fps, _MARGIN * p95_s), 6)


def delay_steps(p95_s: float, fps: float, horizon: int) -> int:
    """Steps that the robot will execute before the answer is there, for real-time chunking.

    >>> delay_steps(0.21, fps=10, horizon=10)
    3
    """
    return min(math.ceil(p95_s * fps), horizon)


def needed_age_s(execute_steps: int, fps: float, buffer: float, p95_s: float) -> float:
    """How old an action gets in normal operation: it waits for its turn in the chunk."""
    return execute_steps / fps + buffer + p95_s


def usual_age_s(needed_s: float) -> float:
    """The bound where nobody set one: the usual one, or what this policy needs and some room."""
    return USUAL_AGE_S if needed_s <= USUAL_AGE_S else needed_s * _ROOM
