"""One call: choose the image codec, send, wait, send again, until a chunk comes."""

import itertools
import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lefleet_client.remote.checks import LONGEST_REASON, chunk_fault, shown
from lefleet_client.remote.connection import Arrived, Connection
from lefleet_client.remote.errors import (
    BadChunk,
    BadObservation,
    RequestRejected,
    SessionLost,
    TimedOut,
)
from lefleet_client.remote.observation import Codec, ObservationRequest
from lefleet_client.remote.states import ClientSession, Phase
from lefleet_client.wire import (
    NEWER,
    OBSERVATION,
    ActionChunk,
    CodecChoice,
    Probed,
    RequestFailed,
    decode_tensor,
)

PROBE_ROUNDS = 5
PROBE_LOST_S = 0.3
_MOST_LOST = 2


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one answered observation.

    The robot measures `encode_ms` and, from sending to arrival, `round_trip_ms`. The server
    reports what it spent; what remains of the round trip is `network_ms`.
    """

    encode_ms: float
    round_trip_ms: float
    queue_wait_ms: float
    prepare_ms: float
    inference_ms: float

    @property
    def network_ms(self) -> float:
        spent = self.queue_wait_ms + self.prepare_ms + self.inference_ms
        return max(0.0, self.round_trip_ms - spent)

    @property
    def total_ms(self) -> float:
        return self.encode_ms + self.round_trip_ms


@dataclass(frozen=True)
class RemoteChunk:
    """Future actions, float32, step x action: as the policy made them and as the robot does them.

    `superseded` counts this robot's observations that newer ones overwrote since its last answer;
    `load` of the server is between 0 and 1; `digest` is that of the checkpoint that computed it.
    """

    model: NDArray[np.float32]
    robot: NDArray[np.float32]
    timing: Timing
    superseded: int
    load: float
    seq_id: int
    server: str
    digest: str

    @classmethod
    def of(
        cls, chunk: ActionChunk, *, encode_ms: float, round_trip_ms: float, server: str
    ) -> "RemoteChunk":
        """The chunk with arrays of its own, so that keeping it does not keep the message."""
        return cls(
            model=np.array(decode_tensor(chunk.chunk_model), np.float32),
            robot=np.array(decode_tensor(chunk.chunk_robot), np.float32),
            timing=Timing(
                encode_ms=encode_ms,
                round_trip_ms=round_trip_ms,
                queue_wait_ms=chunk.queue_wait_ms,
                prepare_ms=chunk.prepare_ms,
                inference_ms=chunk.inference_ms,
            ),
            superseded=chunk.superseded,
            load=chunk.load,
            seq_id=chunk.seq_id,
            server=server,
            digest=chunk.digest,
        )


class Exchange:
    """What one call has sent, in all sessions that it used.

    Observations travel best effort, so one that stays unanswered for `resend_s` is sent again,
    under the same number: a server that has it already computes nothing twice. Each time the wait
    doubles. Each session gets a number of its own, newer than that of any probe before it, because
    a server prefers what is newer. Without `failover` it is one session: one that is over ends the
    call, so that the caller can send a newer observation in the next.
    """

    def __init__(
        self,
        connection: Connection,
        request: ObservationRequest,
        *,
        seq_ids: "itertools.count[int]",
        episode_id: int,
        deadline_s: float,
        timeout_s: float,
        resend_s: float,
        image_codec: CodecChoice,
        jpeg_quality: int,
        failover: bool,
    ) -> None:
        self._connection = connection
        self._failover = failover
        self._request = request
        self._seq_ids = seq_ids
        self._seq_id = 0
        self._episode_id = episode_id
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._resend_s = resend_s
        self._image_codec: CodecChoice = image_codec
        self._jpeg_quality = jpeg_quality
        self._began_ns = 0
        self.sent = 0
        """How often the observation was sent."""
        self.round_trip_ms = 0.0
        """From the first sending to the answer, whatever it says; 0 before there is one."""

    def run(self) -> RemoteChunk:
        connection = self._connection
        connection.begin_send()
        first = connection.session
        session: ClientSession | None = None
        body, encode_ms = b"", 0.0
        while time.monotonic() < self._deadline_s:
            self._require_session(first)
            usable = connection.ready(self._deadline_s)
            # It may have found out that the server was restarted, and opened another session.
            self._require_session(first)
            if session is None or usable.ack is not session.ack:
                quality = self._quality(usable)
                if quality is None:
                    connection.begin_send()
                    continue
                began_s = time.monotonic()
                body = self._request.encode(quality)
                encode_ms = (time.monotonic() - began_s) * 1000
                self._seq_id = next(self._seq_ids)
                session = usable
                # All that took time: is there some left, and the session still there?
                continue
            chunk = self._send_and_wait(session, body)
            if chunk is not None:
                connection.require_open()
                return RemoteChunk.of(
                    chunk,
                    encode_ms=encode_ms,
                    round_trip_ms=self.round_trip_ms,
                    server=session.status.server,
                )
        connection.require_open()
        connection.raise_failure()
        raise self._timed_out()

    def _send_and_wait(self, session: ClientSession, body: bytes) -> ActionChunk | None:
        """The chunk; None when none came in time, or none will come in this session."""
        self._began_ns = self._began_ns or time.monotonic_ns()
        self._connection.send(body, self._seq_id, self._episode_id, self._began_ns)
        self.sent += 1
        until_s = min(time.monotonic() + self._resend_s, self._deadline_s)
        while answer := self._answer(session, self._seq_id, until_s):
            message, at_ns = answer
            round_trip_ms = (at_ns - self._began_ns) / 1e6
            if isinstance(message, ActionChunk) and message.episode_id == self._episode_id:
                self.round_trip_ms = round_trip_ms
                if fault := chunk_fault(session.ack.capabilities, message):
                    raise BadChunk(
                        f"server {session.status.server} sent a chunk that its policy cannot have "
                        f"made: {fault}; look at the server's log, and use TLS where others can "
                        "send in its name"
                    )
                self._connection.answered()
                return message
            if isinstance(message, RequestFailed):
                self.round_trip_ms = round_trip_ms
                reason = shown(message.reason, LONGEST_REASON)
                raise RequestRejected(
                    reason,
                    f"server {session.status.server} could not answer the observation: {reason}",
                )
        if self._is_in(session):
            self._connection.overdue()
            self._resend_s *= 2
        return None

    def _answer(self, session: ClientSession, seq_id: int, until_s: float) -> Arrived | None:
        """What has come in answer to this number; None at the time, or when the session is lost."""
        while self._is_in(session):
            is_late = time.monotonic() >= until_s
            got = self._connection.receive(until_s)
            if got is not None and got.message.seq_id == seq_id:
                if not (reason := _newer(got.message)):
                    return got
                self._connection.overtaken(reason)
            if is_late and (got is None or got.at_ns >= until_s * 1e9):
                break
        return None

    def _is_in(self, session: ClientSession) -> bool:
        """Whether answers of this session can still come."""
        state, newest = self._connection.state, self._connection.session
        is_open = state.phase is Phase.OPEN and newest.ack is session.ack
        return is_open and not self._connection.is_ending

    def _require_session(self, first: ClientSession) -> None:
        """Without failover, raise SessionLost unless the call's first session is still there."""
        connection = self._connection
        is_open = connection.state.phase is Phase.OPEN
        if not self._failover and not (is_open and connection.session.ack is first.ack):
            connection.require_open()
            connection.raise_failure()
            raise SessionLost(
                f"the session on server {first.status.server} ended before a chunk came"
            )

    def _quality(self, session: ClientSession) -> int | None:
        """How images are encoded in this session: 0 is raw. None when the session was lost."""
        if not self._request.frame.images:
            return 0
        codec = session.codec
        if codec is None:
            theirs = session.ack.image_codec
            choice = self._image_codec if theirs == "auto" else theirs
            codec = self._faster_codec(session) if choice == "auto" else choice
            if codec is None:
                return None
            self._connection.choose_codec(codec)
        return 0 if codec == "raw" else self._jpeg_quality

    def _faster_codec(self, session: ClientSession) -> Codec | None:
        """The codec that gets through and can be faster; None if the session is lost.

        One host does not mean one shared memory, and raw images may not fit through a slow link at
        all: only a measurement of this very link tells. The first messages of a kind are slow,
        because memory for them has yet to be found: the fastest of some tells what the next ones
        will be like. Where nothing comes back, or time is up, it is JPEG, which works on every
        link, and where raw images with their history are too large for a message. Half of the time
        is left for the observation itself.
        """
        raw_bytes = sum(image.nbytes for image in self._request.frame.images.values())
        if raw_bytes * session.ack.capabilities.n_obs_steps > OBSERVATION.limits.max_bytes:
            return "jpeg"
        until_s = (time.monotonic() + self._deadline_s) / 2
        times: dict[Codec, list[float]] = {"jpeg": [], "raw": []}
        for _ in range(PROBE_ROUNDS):
            for codec, found in times.items():
                if found.count(math.inf) < _MOST_LOST:
                    found.append(self._probe(session, codec, until_s))
                if not (self._is_in(session) and self._connection.state.is_usable):
                    return None
                if time.monotonic() >= until_s:
                    return "jpeg"
        return min(times, key=lambda codec: (_is_lossy(times[codec]), min(times[codec])))

    def _probe(self, session: ClientSession, codec: Codec, until_s: float) -> float:
        """Seconds until the server has decoded the images; infinite without its word in time."""
        began_s = time.monotonic()
        seq_id = next(self._seq_ids)
        try:
            body = self._request.encode_probe(0 if codec == "raw" else self._jpeg_quality)
        except BadObservation:
            return math.inf
        self._connection.send(body, seq_id, self._episode_id, time.monotonic_ns())
        lost_s = min(until_s, time.monotonic() + PROBE_LOST_S)
        answer = self._answer(session, seq_id, lost_s)
        is_probed = answer is not None and isinstance(answer.message, Probed)
        return time.monotonic() - began_s if is_probed else math.inf

    def _timed_out(self) -> TimedOut:
        state = self._connection.state
        where = (
            f"no chunk from server {self._connection.session.status.server} within "
            f"{self._timeout_s:g} s"
        )
        if not self.sent:
            return TimedOut(
                f"{where}: opening a session, choosing the image codec and encoding took the time, "
                "and nothing was sent; raise timeout_s, or set image_codec to jpeg"
            )
        if state.is_draining:
            condition = "is about to stop"
        else:
            condition = "seems to be alive" if state.is_usable else "went away"
        dropped = self._connection.ignored
        unread = f", and {dropped} messages under its name cannot be read" if dropped else ""
        return TimedOut(
            f"{where}; the observation was sent {self.sent} times and the server {condition}"
            f"{unread}. Is it overloaded, or the network too slow for these images? A longer "
            "timeout_s may help"
        )


def _newer(message: ActionChunk | RequestFailed | Probed) -> str:
    """The reason of a server that knows newer numbers than the robot's; empty otherwise."""
    if isinstance(message, RequestFailed) and message.reason.startswith(NEWER):
        return message.reason
    return ""


def _is_lossy(times: list[float]) -> bool:
    """One loss may have any cause."""
    return times.count(math.inf) >= _MOST_LOST
