"""In what state a robot is whose policy runs elsewhere: an event and the clock in, a state out.

    CONNECTING ──a chunk is merged──► STREAMING ──the request is late──► DEGRADED
                                        ▲   │                               │
                                        │   └──no fresh action──► STALLED ◄─┘
                                        └─────a chunk is merged──────┘
    any         ──the session is lost, or requests time out in a row──► RECONNECTING
    RECONNECTING──a chunk is merged──► STREAMING
    any         ──offline for too long, or another model is served──► DEAD, for good

A new episode, or the end of a pause, begins in CONNECTING: a first chunk is awaited. Only a merged
chunk ends the time that counts as offline, so a server that opens sessions and never answers leads
to DEAD too. While the robot is paused, or its control loop does something else, no time counts.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum


class Mode(Enum):
    CONNECTING = "connecting"
    STREAMING = "streaming"
    DEGRADED = "degraded"
    STALLED = "stalled"
    RECONNECTING = "reconnecting"
    DEAD = "dead"


class Happened(Enum):
    """Events without a reason."""

    ASKED = "an observation was sent"
    MERGED = "a chunk was merged into the queue"
    PAUSED = "a person or a strategy took over"
    RESUMED = "the policy drives again"
    RESET = "a new episode begins"
    TICK = "time has passed"


@dataclass(frozen=True)
class Starved:
    """The control loop found no action that may be executed."""

    reason: str


@dataclass(frozen=True)
class Absent:
    """The control loop is back, which asked for nothing since then: people reset the scene."""

    since_s: float


@dataclass(frozen=True)
class RequestLate:
    """A request ended without a chunk, though the session is open."""

    reason: str


@dataclass(frozen=True)
class SessionOver:
    """The session was lost, or none could be opened."""

    reason: str


@dataclass(frozen=True)
class Fatal:
    """Nothing that waiting could mend: another model, another contract, a replaced robot."""

    reason: str


FailSafeEvent = Happened | Starved | Absent | RequestLate | SessionOver | Fatal


@dataclass(frozen=True)
class FailSafeLimits:
    """When a late request, a row of them, and time without a chunk have consequences."""

    degraded_after_s: float = 1.0
    max_offline_s: float = 60.0
    late_in_a_row: int = 2


@dataclass(frozen=True)
class FailSafe:
    """All that the next state depends on, besides the event and the clock."""

    limits: FailSafeLimits
    since_s: float
    """When this mode began."""
    mode: Mode = Mode.CONNECTING
    reason: str = "waiting for the first chunk"
    """Why it is in this mode, to end a sentence; empty when streaming."""
    asked_at_s: float | None = None
    """When the request in flight was sent."""
    offline_since_s: float | None = None
    """When the oldest trouble began that no chunk has ended; None without any."""
    paused_at_s: float | None = None
    late: int = 0
    """Requests in a row that ended without a chunk."""
    reconnects: int = 0

    @property
    def is_dead(self) -> bool:
        return self.mode is Mode.DEAD

    @property
    def dies_at_s(self) -> float:
        """When the time offline is used up, unless a chunk comes; infinite while none counts."""
        if self.is_dead or self.paused_at_s is not None or self.offline_since_s is None:
            return math.inf
        return self.offline_since_s + self.limits.max_offline_s

    @property
    def degrades_at_s(self) -> float:
        """When the request in flight becomes late; infinite where that changes nothing."""
        is_streaming = self.mode is Mode.STREAMING and self.paused_at_s is None
        if not is_streaming or self.asked_at_s is None:
            return math.inf
        return self.asked_at_s + self.limits.degraded_after_s

    @property
    def wake_at_s(self) -> float:
        """When a TICK changes something."""
        return min(self.dies_at_s, self.degrades_at_s)


def advance(state: FailSafe, event: FailSafeEvent, now_s: float) -> FailSafe:
    """The state after an event; DEAD is final."""
    if state.is_dead:
        return state
    match event:
        case Fatal(reason=reason):
            return _enter(state, Mode.DEAD, reason, now_s)
        case SessionOver(reason=reason):
            return _reconnect(state, reason, now_s)
        case RequestLate(reason=reason):
            return _late(state, reason, now_s)
        case Starved(reason=reason):
            return _starved(state, reason, now_s)
        case Absent(since_s=since_s) if state.paused_at_s is None:
            return _without(state, since_s, now_s)
        case Happened.ASKED:
            return replace(_offline(state, now_s), asked_at_s=now_s)
        case Happened.MERGED:
            fed = replace(state, asked_at_s=None, offline_since_s=None, late=0)
            return _enter(fed, Mode.STREAMING, "", now_s)
        case Happened.PAUSED if state.paused_at_s is None:
            return replace(state, paused_at_s=now_s)
        case Happened.RESUMED if state.paused_at_s is not None:
            return _resume(state, state.paused_at_s, now_s)
        case Happened.RESET:
            return _await_first(state, now_s)
        case Happened.TICK:
            return _tick(state, now_s)
    return state


def _enter(state: FailSafe, mode: Mode, reason: str, now_s: float) -> FailSafe:
    since_s = state.since_s if mode is state.mode else now_s
    return replace(state, mode=mode, reason=reason, since_s=since_s)


def _offline(state: FailSafe, now_s: float) -> FailSafe:
    return state if state.offline_since_s is not None else replace(state, offline_since_s=now_s)


def _reconnect(state: FailSafe, reason: str, now_s: float) -> FailSafe:
    is_new = state.mode is not Mode.RECONNECTING
    state = replace(
        _offline(state, now_s), asked_at_s=None, late=0, reconnects=state.reconnects + is_new
    )
    return _enter(state, Mode.RECONNECTING, reason, now_s)


def _late(state: FailSafe, reason: str, now_s: float) -> FailSafe:
    late = state.late + 1
    if late >= state.limits.late_in_a_row and state.mode is not Mode.RECONNECTING:
        return _reconnect(state, f"{late} requests in a row: {reason}", now_s)
    return replace(_offline(state, now_s), asked_at_s=None, late=late)


def _starved(state: FailSafe, reason: str, now_s: float) -> FailSafe:
    if state.paused_at_s is not None:
        return state
    state = _offline(state, now_s)
    if state.mode in (Mode.STREAMING, Mode.DEGRADED):
        return _enter(state, Mode.STALLED, reason, now_s)
    return state


def _without(state: FailSafe, from_s: float, now_s: float) -> FailSafe:
    """The time that counts as offline goes on where it stood, as if this time had not passed."""
    if state.offline_since_s is None:
        return state
    passed_s = now_s - max(state.offline_since_s, from_s)
    return replace(state, offline_since_s=state.offline_since_s + passed_s)


def _resume(state: FailSafe, paused_at_s: float, now_s: float) -> FailSafe:
    running = replace(_without(state, paused_at_s, now_s), paused_at_s=None)
    return _await_first(running, now_s)


def _await_first(state: FailSafe, now_s: float) -> FailSafe:
    """Nothing of what was planned before is executed: the next chunk is the first one again."""
    state = replace(state, asked_at_s=None)
    if state.mode is Mode.RECONNECTING:
        return state
    return _enter(state, Mode.CONNECTING, "waiting for the first chunk", now_s)


def _tick(state: FailSafe, now_s: float) -> FailSafe:
    limits = state.limits
    if now_s >= state.dies_at_s:
        because = f": {state.reason}" if state.reason else ""
        return _enter(state, Mode.DEAD, f"no chunk for {limits.max_offline_s:g} s{because}", now_s)
    if now_s >= state.degrades_at_s:
        reason = f"no answer for {limits.degraded_after_s:g} s"
        return _enter(state, Mode.DEGRADED, reason, now_s)
    return state
