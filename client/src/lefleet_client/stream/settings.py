"""How a robot asks and what it does in trouble: as its user sets it, and as a policy allows it."""

import math
from dataclasses import dataclass
from typing import Literal

from lefleet_client.stream.fallback import Fallback
from lefleet_client.stream.queue import Merge
from lefleet_client.stream.timing import buffer_s, needed_age_s, usual_age_s
from lefleet_client.wire import Capabilities

_ROUNDING = 1e-6


@dataclass(frozen=True)
class StreamSettings:
    """None means that it is derived: from the policy, or from measured round trips."""

    fps: float
    execute_steps: int | None = None
    """Steps of a chunk that may be executed; the policy's n_action_steps, with RTC all of them."""
    merge: Literal["auto"] | Merge = "auto"
    """auto: rtc if the server supports it, else aligned."""
    buffer_time_s: float | None = None
    max_action_age_s: float | None = None
    fallback: Fallback = "safe"
    degraded_after_s: float = 1.0
    request_timeout_s: float = 5.0
    handshake_timeout_s: float = 2.0
    max_offline_s: float = 60.0

    def __post_init__(self) -> None:
        times = {
            "fps": self.fps,
            "buffer_time_s": self.buffer_time_s,
            "max_action_age_s": self.max_action_age_s,
            "degraded_after_s": self.degraded_after_s,
            "request_timeout_s": self.request_timeout_s,
            "handshake_timeout_s": self.handshake_timeout_s,
            "max_offline_s": self.max_offline_s,
        }
        for name, value in times.items():
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name}: {value!r} is not above 0")
        if self.execute_steps is not None and self.execute_steps < 1:
            raise ValueError(f"execute_steps: {self.execute_steps} is below 1")


@dataclass(frozen=True)
class StreamPlan:
    """What the settings come to with this policy and this network."""

    merge: Merge
    execute_steps: int
    max_action_age_s: float
    warnings: tuple[str, ...]

    def ask_at(self, settings: StreamSettings, p95_s: float) -> int:
        """How many actions are left when the next chunk is asked for.

        A chunk that arrives later than its last step could be executed is of no use while the
        robot still moves: then it is asked for when nothing is left.
        """
        if self.merge != "append" and p95_s * settings.fps >= self.execute_steps:
            return 0
        buffer = settings.buffer_time_s or buffer_s(p95_s, settings.fps)
        return math.floor(buffer * settings.fps + _ROUNDING)


def plan(settings: StreamSettings, served: Capabilities, p95_s: float) -> StreamPlan:
    """Refuse, with a ValueError, what cannot work; `p95_s` is that of the first round trips."""
    best: Merge = "rtc" if served.supports_rtc else "aligned"
    merge: Merge = best if settings.merge == "auto" else settings.merge
    if merge == "rtc" and not served.supports_rtc:
        raise ValueError(
            f"merge: rtc needs a server with real-time chunking, and {served.model} has none; use "
            "auto"
        )
    most = served.chunk_size
    execute_steps = settings.execute_steps or (most if merge == "rtc" else served.n_action_steps)
    if execute_steps > most:
        raise ValueError(f"execute_steps: {execute_steps}, and a chunk has {most}")
    buffer = settings.buffer_time_s or buffer_s(p95_s, settings.fps)
    needed_s = needed_age_s(execute_steps, settings.fps, buffer, p95_s)
    sum_text = (
        f"{execute_steps} steps at {settings.fps:g} Hz take {execute_steps / settings.fps:.2f} s, "
        f"the buffer {buffer:.2f} s and a round trip {p95_s:.2f} s: {needed_s:.2f} s in all"
    )
    warnings = []
    max_age_s = settings.max_action_age_s
    if max_age_s is None:
        max_age_s = usual_age_s(needed_s)
        if max_age_s > usual_age_s(0.0):
            warnings.append(f"actions may be {max_age_s:.2f} s old, because {sum_text}")
    elif needed_s > max_age_s:
        raise ValueError(
            f"max_action_age_s: {max_age_s:g} s would stop the robot in normal operation: "
            f"{sum_text}; raise it, or lower execute_steps"
        )
    if settings.buffer_time_s is not None and settings.buffer_time_s < p95_s:
        warnings.append(
            f"buffer_time_s of {settings.buffer_time_s:g} s is below the measured round trip of "
            f"{p95_s:.2f} s: the robot will wait for each chunk"
        )
    if merge != "append" and execute_steps < 2 * p95_s * settings.fps:
        warnings.append(
            f"a round trip of {p95_s:.2f} s is more than half of the "
            f"{execute_steps / settings.fps:.2f} s that a chunk takes: the robot will wait for "
            "chunks"
        )
    if 0 < served.envelope_ms < p95_s * 1000:
        warnings.append(
            f"a round trip takes {p95_s * 1000:.0f} ms, and this checkpoint was shown to work up "
            f"to {served.envelope_ms:.0f} ms only (lefleet profile)"
        )
    return StreamPlan(merge, execute_steps, max_age_s, tuple(warnings))
