"""One robot on this server."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lefleet.policy.pipeline import Pipeline
from lefleet.server.observers import RequestOutcome
from lefleet.server.rates import TokenBucket
from lefleet_client import wire
from lefleet_client.transport import Publisher, TransportError

_LOG = logging.getLogger(__name__)

PUBLIC_ID = 8
"""So much of a session's id is shown in a status; the whole id is needed to close the session."""

_ROBOT_TYPE = 100
_SHOWN_WARNINGS, _SHOWN_LENGTH = 4, 200
"""In a status, which has all sessions: the newest of them."""
_REFUSALS, _REFUSALS_PER_S = 5, 10
"""Answers to observations that are not taken: at once, and then in each second."""
MAX_EPISODES_AHEAD = 10_000
MAX_SEQ_AHEAD = 1_000_000
"""How far a message may be ahead of where its session stands: days of work for a robot. What is
further ahead was not sent by it, and would make all that it does send look old."""
BEFORE_ANY = -1
"""The episode of a fresh session: whatever comes first is a new one, and nothing is inherited."""


@dataclass
class SessionCounters:
    """How a session has been served. Written by the holder of its job, read by any thread."""

    answered: int = 0
    failed: int = 0
    superseded: int = 0
    probes: int = 0
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    image_codec: str = ""


class SentChunk(NamedTuple):
    """A chunk as it was sent; the header is that of its request."""

    request: wire.Header
    body: bytes


@dataclass(eq=False)
class Session:
    """What the server knows of a robot; a new handshake of the robot makes a new one.

    Pipeline, counters, last chunk, and the episode that the policy was last reset for, belong to
    the holder of the session's job (see `request_queue`). One lock guards the current episode and
    whether the session is open; it is held for assignments only.
    """

    id: str
    opened: wire.SessionOpen
    limits: wire.ObservationLimits
    schema_version: int
    new_pipeline: Callable[[], Pipeline]
    publisher: Publisher
    counters: SessionCounters = field(default_factory=SessionCounters)
    opened_s: float = field(default_factory=time.monotonic)
    seen_s: float = field(default_factory=time.monotonic)
    is_checked: bool = False
    """Whether the reaper has asked for the robot's presence since the session was opened."""
    has_worked: bool = False
    """Whether an observation came that the policy can take."""
    warnings: tuple[str, ...] = ()
    """What a person should know of this session, those of the handshake first; replaced as a whole,
    so that any thread can read them."""
    last_chunk: SentChunk | None = None
    policy_episode: int = BEFORE_ANY
    _pipeline: Pipeline | None = None
    _pipeline_episode: int = BEFORE_ANY
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _episode_id: int = BEFORE_ANY
    _seq_id: int = 0
    _is_open: bool = True
    _warned: set[str] = field(default_factory=set)
    _refusals: TokenBucket = field(
        default_factory=lambda: TokenBucket(_REFUSALS, _REFUSALS_PER_S, time.monotonic())
    )

    @property
    def client_id(self) -> str:
        return self.opened.client_id

    @property
    def segment(self) -> str:
        """Its client's place in the key tree."""
        return wire.slug(self.client_id, "client_id")

    @property
    def session_epoch(self) -> int:
        return self.opened.session_epoch

    @property
    def episode_id(self) -> int:
        return self._episode_id

    def jump(self, episode_id: int, seq_id: int = 0) -> str:
        """Why these numbers cannot be the robot's next ones; empty if they can, and are noted."""
        with self._lock:
            episode = max(self._episode_id, self.opened.episode_id)
            seq = max(self._seq_id, self.opened.seq_id)
            if episode_id - episode > MAX_EPISODES_AHEAD:
                return _ahead("episode_id", episode_id, episode, MAX_EPISODES_AHEAD)
            if seq_id - seq > MAX_SEQ_AHEAD:
                return _ahead("seq_id", seq_id, seq, MAX_SEQ_AHEAD)
            self._seq_id = max(seq_id, seq)
        return ""

    def enter(self, episode_id: int) -> None:
        """Go on to this episode, never back."""
        with self._lock:
            self._episode_id = max(episode_id, self._episode_id)

    def awaits(self, header: wire.Header) -> bool:
        """Whether the robot still waits for the answer to this request."""
        with self._lock:
            return self._is_open and header.episode_id == self._episode_id

    def close(self) -> None:
        with self._lock:
            self._is_open = False

    def pipeline_for(self, episode_id: int) -> Pipeline:
        """The robot's own pipeline, reset where an episode begins.

        Made for the first request, on the thread that prepares it: copying processors can take
        long, and handshakes are answered on a thread of the transport.
        """
        if self._pipeline is None:
            self._pipeline = self.new_pipeline()
        if self._pipeline_episode != episode_id:
            self._pipeline.reset()
            self._pipeline_episode = episode_id
        return self._pipeline

    def send(self, chunk: SentChunk) -> None:
        """Send a chunk, and keep it in case the robot never gets it."""
        self.last_chunk = chunk
        header = chunk.request._replace(message_type=wire.MessageType.CHUNK)
        self.publisher.put(chunk.body, header.pack())

    def send_again(self, header: wire.Header) -> bool:
        """Send the last chunk again if it is the answer to this request; whether it is."""
        last = self.last_chunk
        if last is None or (last.request.seq_id, last.request.episode_id) != (
            header.seq_id,
            header.episode_id,
        ):
            return False
        self.send(last)
        return True

    def send_event(self, event: wire.Event, request: wire.Header | None = None) -> None:
        """Send something that is no chunk, about a request or not; a failure is only logged."""
        about = request or wire.Header(wire.MessageType.EVENT, 0, max(self._episode_id, 0), 0)
        header = about._replace(
            message_type=wire.MessageType.EVENT,
            session_epoch=self.session_epoch,
            schema_version=self.schema_version,
        )
        try:
            self.publisher.put(wire.EVENT.encode(event), header.pack())
        except TransportError as error:
            _LOG.debug("event=event_not_sent client=%r: %s", self.client_id, error)

    def refuse(self, request: wire.Header, reason: str) -> None:
        """Tell the robot why its observation was not taken. A flood gets a few answers a second."""
        if self._refusals.take(time.monotonic()):
            self.send_event(wire.RequestFailed(seq_id=request.seq_id, reason=reason), request)

    def warn(self, about: str, text: str) -> bool:
        """Note what is wrong with the robot's observations, once for each thing that it is about:
        texts may differ with every observation. Whether it was noted."""
        if about in self._warned:
            return False
        self._warned.add(about)
        self.warnings = (*self.warnings, text)
        return True

    def count(self, outcome: RequestOutcome) -> None:
        counters = self.counters
        counters.superseded += outcome.superseded
        if outcome.result == "answered":
            counters.answered += 1
            counters.queue_wait_ms = outcome.queue_wait_ms
            counters.inference_ms = outcome.inference_ms
        elif outcome.result == "failed":
            counters.failed += 1

    def status(self) -> wire.SessionStatus:
        now = time.monotonic()
        counters = self.counters
        return wire.SessionStatus(
            client_id=self.client_id,
            session_id=self.id[:PUBLIC_ID],
            robot_type=self.opened.robot_type[:_ROBOT_TYPE],
            image_codec=counters.image_codec,
            age_s=now - self.opened_s,
            idle_s=now - self.seen_s,
            episode_id=max(self._episode_id, 0),
            answered=counters.answered,
            failed=counters.failed,
            superseded=counters.superseded,
            queue_wait_ms=counters.queue_wait_ms,
            inference_ms=counters.inference_ms,
            warnings=tuple(text[:_SHOWN_LENGTH] for text in self.warnings[-_SHOWN_WARNINGS:]),
        )


def _ahead(name: str, number: int, known: int, most: int) -> str:
    return (
        f"jump: {name} {number} is more than {most} ahead of {known}, where this session stands; "
        "open a new session"
    )
