"""What the threads of a stream hand to each other, and what it tells of itself."""

from dataclasses import dataclass
from typing import Any

from lefleet_client.stream.failsafe import FailSafe
from lefleet_client.stream.queue import Origin, QueueSnapshot

Seen = Any
"""What the control loop observes, as it is; the worker makes arrays of it."""


@dataclass(frozen=True)
class Work:
    """A request that is due: what was observed, and what was left to execute at that moment."""

    observations: tuple[Seen, ...]
    """As many as the policy looks at, or as there are; the newest is the last."""
    observed_at_s: float
    before: QueueSnapshot
    episode: int
    generation: int


@dataclass(frozen=True)
class Executed:
    """Where the newest action came from; without an origin it was a fallback."""

    origin: Origin | None
    step: int
    age_s: float


@dataclass(frozen=True)
class StreamStatus:
    """One moment, for people and recorders."""

    state: FailSafe
    is_paused: bool
    episode: int
    queued: int
    executed: int
    fallbacks: int
    dropped: int
    """Chunks that came for an episode that was over, or during a pause."""
    action_age_s: float
    last_round_trip_s: float
    p95_round_trip_s: float
