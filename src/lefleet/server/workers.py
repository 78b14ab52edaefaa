"""The threads that answer requests: some prepare, one infers."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lefleet.policy.request import BadRequest, Chunk
from lefleet.policy.served import ServedPolicy
from lefleet.server.answering import action_chunk, codec_of, decoded, policy_request, request_seed
from lefleet.server.board import Board, Ticket
from lefleet.server.capture import Captured, CaptureRing
from lefleet.server.load import BusyMeter
from lefleet.server.outcome import Observer, Outcome, Result
from lefleet.server.session import Answer
from lefleet_client import wire
from lefleet_client.transport import TransportError

_LOG = logging.getLogger(__name__)
_JOIN_S = 5.0
_REASON = 1000


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
        pin_task: bool,
        prepare_threads: int,
        observers: Sequence[Observer],
        capture: CaptureRing | None,
    ) -> None:
        self._board = board
        self._policy = policy
        self._default_task = default_task
        self._pin_task = pin_task
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
            is_prepared = False
            try:
                is_prepared = self._prepare(ticket)
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                self._give_up(ticket, error)
            if is_prepared:
                self._board.put_prepared(ticket)
            else:
                self._board.end(ticket, was_prepared=False)

    def _prepare(self, ticket: Ticket) -> bool:
        """Whether there is something to infer."""
        session, header = ticket.session, ticket.mail.header
        if session.repeat(header):
            return False
        observation = wire.OBSERVATION.decode(ticket.mail.body)
        session.tally.image_codec = codec_of(observation)
        if observation.probe:
            self._answer_probe(ticket, observation)
            return False
        session.enter(header.episode_id)
        _require_awaited(ticket)
        ticket.seed = request_seed(observation, session.id, header)
        request = policy_request(
            observation,
            contract=self._policy.contract,
            robot_type=session.opened.robot_type,
            default_task=self._default_task,
            pin_task=self._pin_task,
            seed=ticket.seed,
        )
        if session.pipeline_episode != header.episode_id:
            session.pipeline.reset()
            session.pipeline_episode = header.episode_id
        ticket.prepared = session.pipeline.prepare(request)
        ticket.prepared_s = time.monotonic()
        return True

    def _answer_probe(self, ticket: Ticket, observation: wire.Observation) -> None:
        decoded(observation, self._policy.contract)
        header = ticket.mail.header
        decode_ms = (time.monotonic() - ticket.taken_s) * 1000
        ticket.session.tell(wire.Probed(seq_id=header.seq_id, decode_ms=decode_ms), header)
        self.probes[codec_of(observation)] += 1

    def _infer_all(self) -> None:
        while (ticket := self._board.next_prepared()) is not None:
            try:
                self._infer(ticket)
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                self._give_up(ticket, error)
            self._board.end(ticket, was_prepared=True)

    def _infer(self, ticket: Ticket) -> None:
        session, header = ticket.session, ticket.mail.header
        _require_awaited(ticket)
        ticket.started_s = time.monotonic()
        if self._policy.mode == "exclusive" and session.policy_episode != header.episode_id:
            self._policy.reset()
            session.policy_episode = header.episode_id
        chunk = session.pipeline.finish(self._policy.predict(ticket.prepared))
        ticket.ended_s = time.monotonic()
        self._busy.add(ticket.started_s, ticket.ended_s)
        _require_finite(chunk)
        _require_awaited(ticket)
        self._answer(ticket, chunk)

    def _answer(self, ticket: Ticket, chunk: Chunk) -> None:
        session, header = ticket.session, ticket.mail.header
        outcome = _outcome(ticket, "answered", "", self._board.superseded(session))
        body = action_chunk(
            chunk,
            header,
            digest=self._policy.digest,
            queue_wait_ms=outcome.queue_wait_ms,
            prepare_ms=outcome.prepare_ms,
            inference_ms=outcome.inference_ms,
            superseded=outcome.superseded,
            load=self._busy.read(),
        )
        session.answer(Answer(header, body))
        self._note(ticket, outcome)
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

    def _give_up(self, ticket: Ticket, error: Exception) -> None:
        """Tell the robot that no chunk will come; the log only has what nobody foresaw."""
        session, header = ticket.session, ticket.mail.header
        is_unawaited = isinstance(error, _Stale | TransportError)
        result: Result = "stale" if is_unawaited else "failed"
        reason = str(error)
        if not is_unawaited and not isinstance(error, wire.WireError | BadRequest | BadAnswer):
            reason = f"the server failed ({type(error).__name__}); its log says why"
            _LOG.error("event=request_failed client=%r", session.client_id, exc_info=error)
        session.tell(wire.RequestFailed(seq_id=header.seq_id, reason=reason[:_REASON]), header)
        self._note(ticket, _outcome(ticket, result, reason, superseded=0))
        if result == "failed" and session.tally.failed == 1:
            _LOG.warning(
                "event=request_failed client=%r reason=%r: said once in a session, then counted",
                session.client_id,
                reason,
            )

    def _note(self, ticket: Ticket, outcome: Outcome) -> None:
        ticket.session.note(outcome)
        for observer in self._observers:
            try:
                observer.finished(outcome)
            except Exception:  # noqa: BLE001 - who only looks on must not end the thread
                _LOG.exception("event=observer_failed")


class _Stale(Exception):
    """Nobody waits for the answer any more."""


class BadAnswer(Exception):
    """A chunk that no robot may execute."""


def _require_awaited(ticket: Ticket) -> None:
    if not ticket.session.awaits(ticket.mail.header):
        raise _Stale("a newer episode or session has begun")


def _require_finite(chunk: Chunk) -> None:
    if not (np.isfinite(chunk.robot).all() and np.isfinite(chunk.model).all()):
        raise BadAnswer("the policy answered with NaN or infinity")


def _outcome(ticket: Ticket, result: Result, reason: str, superseded: int) -> Outcome:
    """What became of a request; times are of what was really done for it."""
    session, header = ticket.session, ticket.mail.header
    now = time.monotonic()
    started_s = now if ticket.started_s is None else ticket.started_s
    ended_s = started_s if ticket.ended_s is None else ticket.ended_s
    prepared_s = started_s if ticket.prepared_s is None else ticket.prepared_s
    prepare_s = prepared_s - ticket.taken_s
    return Outcome(
        session_id=session.id,
        client_id=session.client_id,
        session_epoch=header.session_epoch,
        episode_id=header.episode_id,
        seq_id=header.seq_id,
        seed=ticket.seed,
        result=result,
        reason=reason,
        queue_wait_ms=max(0.0, started_s - ticket.mail.arrived_s - prepare_s) * 1000,
        prepare_ms=prepare_s * 1000,
        inference_ms=(ended_s - started_s) * 1000,
        batch_size=1,
        superseded=superseded,
    )
