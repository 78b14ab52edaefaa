"""One robot on this server."""

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from lefleet.policy.pipeline import Pipeline
from lefleet.server.outcome import Outcome
from lefleet_client import wire
from lefleet_client.transport import Publisher, TransportError

_LOG = logging.getLogger(__name__)

PUBLIC_ID = 8
"""So much of a session's id is shown to everybody; who knows all of it may close the session."""

_ROBOT_TYPE = 100
BEFORE_ANY = -1
"""The episode of a fresh session: whatever comes first is a new one, and nothing is inherited."""


@dataclass
class Tally:
    """How a session has been served; numbers for people, read while they change."""

    answered: int = 0
    failed: int = 0
    superseded: int = 0
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    image_codec: str = ""


class Answer(NamedTuple):
    """A chunk as it was sent; the header is that of its request."""

    request: wire.Header
    body: bytes


@dataclass(eq=False)
class Session:
    """What the server knows of a robot; a new handshake of the robot makes a new one.

    The pipeline, the last answer, and the episodes that pipeline and policy were last reset for,
    belong to whoever holds the session's ticket (see `board`). One lock guards the current episode
    and whether the session is open; it is held for assignments only.
    """

    id: str
    opened: wire.SessionOpen
    schema_version: int
    pipeline: Pipeline
    publisher: Publisher
    tally: Tally = field(default_factory=Tally)
    opened_s: float = field(default_factory=time.monotonic)
    seen_s: float = field(default_factory=time.monotonic)
    is_seen: bool = False
    """Whether the janitor knows of it."""
    last_answer: Answer | None = None
    pipeline_episode: int = BEFORE_ANY
    policy_episode: int = BEFORE_ANY
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _episode_id: int = BEFORE_ANY
    _is_open: bool = True

    @property
    def client_id(self) -> str:
        return self.opened.client_id

    @property
    def epoch(self) -> int:
        return self.opened.session_epoch

    @property
    def episode_id(self) -> int:
        return self._episode_id

    @property
    def is_open(self) -> bool:
        return self._is_open

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

    def answer(self, answer: Answer) -> None:
        """Send a chunk, and keep it in case that the robot never gets it."""
        self.last_answer = answer
        header = answer.request._replace(message_type=wire.MessageType.CHUNK)
        self.publisher.put(answer.body, header.pack())

    def repeat(self, header: wire.Header) -> bool:
        """Send the last chunk again if it is the answer to this request; whether it is."""
        last = self.last_answer
        if last is None or (last.request.seq_id, last.request.episode_id) != (
            header.seq_id,
            header.episode_id,
        ):
            return False
        self.answer(last)
        return True

    def note(self, outcome: Outcome) -> None:
        tally = self.tally
        tally.superseded += outcome.superseded
        if outcome.result == "answered":
            tally.answered += 1
            tally.queue_wait_ms = outcome.queue_wait_ms
            tally.inference_ms = outcome.inference_ms
        elif outcome.result == "failed":
            tally.failed += 1

    def tell(self, event: wire.Event, request: wire.Header | None = None) -> None:
        """Say something that is no chunk, about a request or not; nobody is held up by that."""
        header = wire.Header(
            wire.MessageType.EVENT,
            seq_id=0 if request is None else request.seq_id,
            episode_id=max(self._episode_id, 0) if request is None else request.episode_id,
            client_mono_ns=0 if request is None else request.client_mono_ns,
            session_epoch=self.epoch,
            schema_version=self.schema_version,
        )
        try:
            self.publisher.put(wire.EVENT.encode(event), header.pack())
        except TransportError as error:
            _LOG.debug("event=not_told client=%r: %s", self.client_id, error)

    def status(self) -> wire.SessionStatus:
        now = time.monotonic()
        tally = self.tally
        return wire.SessionStatus(
            client_id=self.client_id,
            session_id=self.id[:PUBLIC_ID],
            robot_type=self.opened.robot_type[:_ROBOT_TYPE],
            image_codec=tally.image_codec,
            age_s=now - self.opened_s,
            idle_s=now - self.seen_s,
            episode_id=max(self._episode_id, 0),
            answered=tally.answered,
            failed=tally.failed,
            superseded=tally.superseded,
            queue_wait_ms=tally.queue_wait_ms,
            inference_ms=tally.inference_ms,
        )
