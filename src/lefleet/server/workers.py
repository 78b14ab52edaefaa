"""The threads that answer requests: some prepare, one infers."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lefleet.policy.request import BadRequest, Chunk
from lefleet.policy.served import ServedPolicy
from lefleet.server.answering import action_chunk, codec_of, policy_request, request_seed
from lefleet.server.board import Board, Ticket
from lefleet.server.capture import Captured, CaptureRing
from lefleet.server.load import BusyMeter
from lefleet.server.outcome import Observer, Outcome, Result
from lefleet_client import wire
from lefleet_client.transport import TransportError

_LOG = logging.getLogger(__name__)
_JOIN_S = 5.0


class Workers:
    """Takes requests from the board until that is closed.

    `prepare-*` threads decode and preprocess; each works with the pipeline of the session whose
    ticket it holds. The `inference` thread alone calls the policy. A request that fails is an
    answer to its robot, and never the end of a thread.
    """

    def __init__(
        self,
        board: Board,
        policy: ServedPolicy,
        *,
        default_task: str,
        prepare_threads: int,
        observers: Sequence[Observer],
        capture: CaptureRing | None,
    ) -> None:
        self._board = board
        self._policy = policy
        self._default_task = default_task
        self._observers = observers
        self._capture = capture
        self._busy = BusyMeter()
        self.probes = Counter[str]()
        names = [f"prepare-{number}" for number in range(prepare_threads)]
        self._threads = [
            *(threading.Thread(target=self._prepare_all, name=name, daemon=True) for name in names),
            threading.Thread(target=self._infer_all, name="inference", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the threads; the board must be closed."""
        for thread in self._threads:
            thread.join(_JOIN_S)

    @property
    def load(self) -> float:
        return self._busy.read()

    def _prepare_all(self) -> None:
        while (ticket := self._board.next_mail()) is not None:
            try:
                is_prepared = self._prepare(ticket)
            except (wire.WireError, BadRequest) as error:
                self._fail(ticket, str(error), was_prepared=False)
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                _LOG.exception("event=prepare_failed client=%s", ticket.session.client_id)
                self._fail(ticket, _internal(error), was_prepared=False)
            else:
                if is_prepared:
                    self._board.put_prepared(ticket)
                else:
                    self._board.end(ticket, was_prepared=False)

    def _prepare(self, ticket: Ticket) -> bool:
        """Whether there is something to infer."""
        session, mail = ticket.session, ticket.mail
        observation = wire.OBSERVATION.decode(mail.body)
        session.tally.image_codec = codec_of(observation)
        if observation.probe:
            self._answer_probe(ticket, observation)
            return False
        session.enter(mail.header.episode_id)
        if not session.awaits(mail.header):
            self._finish(ticket, "stale", "a newer episode or session has begun")
            return False
        ticket.seed = request_seed(observation, session.id, mail.header)
        request = policy_request(
            observation,
            contract=self._policy.contract,
            robot_type=session.opened.robot_type,
            default_task=self._default_task,
            seed=ticket.seed,
        )
        if session.pipeline_episode != mail.header.episode_id:
            session.pipeline.reset()
            session.pipeline_episode = mail.header.episode_id
        ticket.prepared = session.pipeline.prepare(request)
        ticket.prepared_s = time.monotonic()
        return True

    def _answer_probe(self, ticket: Ticket, observation: wire.Observation) -> None:
        wire.decode_images(observation.images)
        header = ticket.mail.header
        decode_ms = _ms(time.monotonic() - ticket.taken_s)
        ticket.session.send(
            wire.Probed(seq_id=header.seq_id, decode_ms=decode_ms),
            header.seq_id,
            header.client_mono_ns,
        )
        self.probes[codec_of(observation)] += 1

    def _infer_all(self) -> None:
        while (ticket := self._board.next_prepared()) is not None:
            try:
                self._infer(ticket)
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                _LOG.exception("event=inference_failed client=%s", ticket.session.client_id)
                self._fail(ticket, _internal(error), was_prepared=True)
            else:
                self._board.end(ticket, was_prepared=True)

    def _infer(self, ticket: Ticket) -> None:
        session, header = ticket.session, ticket.mail.header
        if not session.awaits(header):
            self._finish(ticket, "stale", "a newer episode or session has begun")
            return
        start_s = time.monotonic()
        if self._policy.mode == "exclusive" and session.policy_episode != header.episode_id:
            self._policy.reset()
            session.policy_episode = header.episode_id
        chunk = session.pipeline.finish(self._policy.predict(ticket.prepared))
        end_s = time.monotonic()
        self._busy.add(start_s, end_s)
        _require_finite(chunk)
        if not session.awaits(header):
            self._finish(ticket, "stale", "a newer episode or session has begun", start_s, end_s)
            return
        self._answer(ticket, chunk, start_s, end_s)

    def _answer(self, ticket: Ticket, chunk: Chunk, start_s: float, end_s: float) -> None:
        session, header = ticket.session, ticket.mail.header
        outcome = self._outcome(ticket, "answered", "", start_s, end_s)
        body = action_chunk(
            chunk,
            header,
            queue_wait_ms=outcome.queue_wait_ms,
            prepare_ms=outcome.prepare_ms,
            inference_ms=outcome.inference_ms,
            superseded=outcome.superseded,
            load=self._busy.read(),
        )
        reply = header._replace(message_type=wire.MessageType.CHUNK)
        session.publisher.put(body, reply.pack())
        self._tell(ticket, outcome)
        if self._capture is not None:
            self._capture.record(
                Captured(
                    session_id=session.id,
                    client_id=session.client_id,
                    robot_type=session.opened.robot_type,
                    default_task=self._default_task,
                    digest=self._policy.digest,
                    seed=ticket.seed,
                    header=header.pack(),
                    observation=ticket.mail.body,
                    chunk=body,
                )
            )

    def _fail(self, ticket: Ticket, reason: str, *, was_prepared: bool) -> None:
        session, header = ticket.session, ticket.mail.header
        try:
            event = wire.RequestFailed(seq_id=header.seq_id, reason=reason[:1000])
            session.send(event, header.seq_id, header.client_mono_ns)
        except TransportError as error:
            _LOG.warning(
                "event=failure_not_told client=%s reason=%r", session.client_id, str(error)
            )
        self._finish(ticket, "failed", reason)
        if session.tally.failed == 1:
            _LOG.warning(
                "event=request_failed client=%s reason=%r: said once in a session, then counted",
                session.client_id,
                reason,
            )
        self._board.end(ticket, was_prepared=was_prepared)

    def _finish(
        self,
        ticket: Ticket,
        result: Result,
        reason: str,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> None:
        now = time.monotonic()
        self._tell(ticket, self._outcome(ticket, result, reason, start_s or now, end_s or now))

    def _tell(self, ticket: Ticket, outcome: Outcome) -> None:
        ticket.session.note(outcome)
        for observer in self._observers:
            observer.finished(outcome)

    def _outcome(
        self, ticket: Ticket, result: Result, reason: str, start_s: float, end_s: float
    ) -> Outcome:
        session, header = ticket.session, ticket.mail.header
        prepare_s = max(0.0, (ticket.prepared_s or start_s) - ticket.taken_s)
        waited_s = start_s - ticket.mail.arrived_s - prepare_s
        return Outcome(
            session_id=session.id,
            client_id=session.client_id,
            session_epoch=header.session_epoch,
            episode_id=header.episode_id,
            seq_id=header.seq_id,
            seed=ticket.seed,
            result=result,
            reason=reason,
            queue_wait_ms=_ms(waited_s),
            prepare_ms=_ms(prepare_s),
            inference_ms=_ms(end_s - start_s),
            batch_size=1,
            superseded=self._board.superseded(session),
        )


def _require_finite(chunk: Chunk) -> None:
    """No robot is told to move to nowhere."""
    if not (np.isfinite(chunk.robot).all() and np.isfinite(chunk.model).all()):
        raise ValueError("the policy answered with numbers that are not finite")


def _internal(error: Exception) -> str:
    """What a robot may know of a mistake on this side; the rest is in the log."""
    return f"the server failed ({type(error).__name__}); its log says why"


def _ms(seconds: float) -> float:
    return max(0.0, seconds * 1000.0)
