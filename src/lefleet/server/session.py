"""One robot on this server."""

import threading
import time
from dataclasses import dataclass, field

from lefleet.policy.pipeline import Pipeline
from lefleet.server.outcome import Outcome
from lefleet_client import wire
from lefleet_client.transport import Publisher

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


@dataclass(eq=False)
class Session:
    """What the server knows of a robot; a new handshake of the robot makes a new one.

    The pipeline, and the episodes that it and the policy were last reset for, belong to whoever
    holds the session's ticket (see `board`). One lock guards the current episode and whether the
    session is open; it is held for assignments only.
    """

    id: str
    opened: wire.SessionOpen
    pipeline: Pipeline
    publisher: Publisher
    tally: Tally = field(default_factory=Tally)
    opened_s: float = field(default_factory=time.monotonic)
    seen_s: float = field(default_factory=time.monotonic)
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

    def note(self, outcome: Outcome) -> None:
        tally = self.tally
        tally.superseded += outcome.superseded
        if outcome.result == "answered":
            tally.answered += 1
            tally.queue_wait_ms = outcome.queue_wait_ms
            tally.inference_ms = outcome.inference_ms
        elif outcome.result == "failed":
            tally.failed += 1

    def send(self, event: wire.Event, seq_id: int = 0, client_mono_ns: int = 0) -> None:
        """Tell the robot something that is no chunk."""
        header = wire.Header(
            wire.MessageType.EVENT,
            seq_id,
            max(self._episode_id, 0),
            client_mono_ns,
            self.epoch,
        )
        self.publisher.put(wire.EVENT.encode(event), header.pack())

    def status(self) -> wire.SessionStatus:
        now = time.monotonic()
        tally = self.tally
        return wire.SessionStatus(
            client_id=self.client_id,
            session_id=self.id,
            robot_type=self.opened.robot_type,
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
