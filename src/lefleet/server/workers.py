"""The threads that answer requests: some prepare, one infers and publishes."""

import logging
import threading
import time
from collections.abc import Sequence

import numpy as np

from lefleet.policy.request import BadRequest, Chunk
from lefleet.policy.served import ServedPolicy
from lefleet.server.capture import Captured, CaptureRing
from lefleet.server.conversion import (
    action_chunk,
    codec_of,
    policy_frame,
    policy_request,
    request_seed,
    unannounced_keys,
    unannounced_sizes,
    used_images,
)
from lefleet.server.monitoring import BusyMeter
from lefleet.server.observers import EventCounts, Observer, RequestOutcome, RequestResult
from lefleet.server.request_queue import Job, RequestQueue
from lefleet.server.session import SentChunk
from lefleet_client import wire
from lefleet_client.transport import TransportError

_LOG = logging.getLogger(__name__)
_JOIN_S = 5.0
_REASON = 1000
_FREE_PROBES = 64
"""A robot sends fewer in a session; the time for further ones counts as wasted."""


class Workers:
    """Takes requests from the queue until that is closed.

    `prepare-*` threads decode and preprocess; each works with the pipeline of the session whose
    job it holds. The `inference` thread alone calls the policy. A request that fails is an answer
    to its robot, and never the end of a thread.
    """

    def __init__(
        self,
        queue: RequestQueue,
        policy: ServedPolicy,
        *,
        default_task: str,
        pin_task: bool,
        prepare_threads: int,
        observers: Sequence[Observer],
        capture: CaptureRing | None,
    ) -> None:
        self._queue = queue
        self._policy = policy
        self._default_task = default_task
        self._pin_task = pin_task
        self._observers = observers
        self._capture = capture
        self._busy = BusyMeter()
        self.probes = EventCounts()
        """Answered probes by image codec."""
        names = [f"prepare-{number}" for number in range(prepare_threads)]
        self._threads = [
            *(threading.Thread(target=self._prepare_all, name=name, daemon=True) for name in names),
            threading.Thread(target=self._infer_all, name="inference", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the threads that were started; the queue must be closed."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_JOIN_S)

    @property
    def load(self) -> float:
        return self._busy.read()

    def _prepare_all(self) -> None:
        while (job := self._queue.next_to_prepare()) is not None:
            is_prepared, is_wasted = False, False
            try:
                is_prepared = self._prepare(job)
                is_wasted = job.session.counters.probes > _FREE_PROBES
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                self._fail(job, error)
                is_wasted = True
            if is_prepared:
                self._queue.put_prepared(job)
            else:
                self._queue.finish(job, time.monotonic() - job.taken_s if is_wasted else 0.0)

    def _prepare(self, job: Job) -> bool:
        """Whether there is something to infer."""
        session, header = job.session, job.incoming.header
        if session.send_again(header):
            return False
        observation = wire.decode_observation(job.incoming.body, session.limits)
        session.counters.image_codec = codec_of(observation)
        if observation.probe:
            self._answer_probe(job, observation)
            return False
        session.enter(header.episode_id)
        _require_awaited(job)
        job.seed = request_seed(observation, session.id, header)
        request = policy_request(
            observation,
            contract=self._policy.contract,
            robot_type=session.opened.robot_type,
            default_task=self._default_task,
            pin_task=self._pin_task,
            seed=job.seed,
        )
        contract = self._policy.contract
        warnings = dict(unannounced_sizes(observation, contract, session.opened))
        if unknown := unannounced_keys(observation, contract, session.opened):
            # Under one name: a robot may invent any number of keys.
            warnings["unknown keys"] = unknown
        for about, warning in warnings.items():
            if session.warn(about, warning):
                _LOG.warning("event=session_warning client=%r %s", session.client_id, warning)
        job.prepared = session.pipeline_for(header.episode_id).prepare(request)
        job.prepared_s = time.monotonic()
        session.has_worked = True
        return True

    def _answer_probe(self, job: Job, observation: wire.Observation) -> None:
        session, header = job.session, job.incoming.header
        contract = self._policy.contract
        policy_frame(observation, used_images(observation, contract), contract)
        decode_ms = (time.monotonic() - job.taken_s) * 1000
        session.send_event(wire.Probed(seq_id=header.seq_id, decode_ms=decode_ms), header)
        session.counters.probes += 1
        self.probes.add(codec_of(observation))

    def _infer_all(self) -> None:
        while (job := self._queue.next_to_infer()) is not None:
            try:
                self._publish(job, self._infer(job))
            except Exception as error:  # noqa: BLE001 - one robot's request must not end the thread
                self._fail(job, error)
            self._queue.finish(job)

    def _infer(self, job: Job) -> Chunk:
        session, header = job.session, job.incoming.header
        _require_awaited(job)
        job.started_s = time.monotonic()
        if self._policy.is_exclusive and session.policy_episode != header.episode_id:
            self._policy.reset()
            session.policy_episode = header.episode_id
        pipeline = session.pipeline_for(header.episode_id)
        chunk = pipeline.finish(self._policy.predict(job.prepared))
        job.ended_s = time.monotonic()
        self._busy.add(job.started_s, job.ended_s)
        _require_finite(chunk)
        _require_awaited(job)
        return chunk

    def _publish(self, job: Job, chunk: Chunk) -> None:
        session, header = job.session, job.incoming.header
        outcome = _outcome(job, "answered", "", self._queue.superseded(session))
        digest, load = self._policy.digest, self._busy.read()
        body = action_chunk(chunk, header, outcome, digest=digest, load=load)
        session.send(SentChunk(header, body))
        self._report(job, outcome)
        if self._capture is not None:
            self._capture.record(
                Captured(
                    session_id=session.id,
                    client_id=session.client_id,
                    robot_type=session.opened.robot_type,
                    default_task=self._default_task,
                    digest=digest,
                    seed=job.seed,
                    header=header.pack(),
                    observation=job.incoming.body,
                    chunk=body,
                )
            )

    def _fail(self, job: Job, error: Exception) -> None:
        """Tell the robot that no chunk will come; the log only has what was not foreseen."""
        session, header = job.session, job.incoming.header
        is_unawaited = isinstance(error, _Stale | TransportError)
        result: RequestResult = "stale" if is_unawaited else "failed"
        reason = str(error)[:_REASON]
        if not is_unawaited and not isinstance(error, wire.WireError | BadRequest | _BadChunk):
            reason = f"the server failed ({type(error).__name__}); its log says why"
            _LOG.error("event=request_failed client=%r", session.client_id, exc_info=error)
        event = wire.RequestFailed(seq_id=header.seq_id, reason=reason)
        session.send_event(event, header)
        self._report(job, _outcome(job, result, reason, superseded=0))
        if result == "failed" and session.counters.failed == 1:
            session.warn("failure", f"an observation failed: {reason}")
            _LOG.warning(
                "event=request_failed client=%r reason=%r (further failures of this session are "
                "only counted)",
                session.client_id,
                reason,
            )

    def _report(self, job: Job, outcome: RequestOutcome) -> None:
        job.session.count(outcome)
        for observer in self._observers:
            try:
                observer.finished(outcome)
            except Exception:  # noqa: BLE001 - an observer must not end the thread
                _LOG.exception("event=observer_failed")


class _Stale(Exception):
    """No robot waits for the answer any more."""


class _BadChunk(Exception):
    """A chunk that no robot may execute."""


def _require_awaited(job: Job) -> None:
    if not job.session.awaits(job.incoming.header):
        newest, asked = job.session.episode_id, job.incoming.header.episode_id
        if asked < newest:
            raise _Stale(f"{wire.NEWER}: episode {newest} has begun, this was asked in {asked}")
        # Not NEWER: a robot that was replaced would take its place back.
        raise _Stale("the session is closed")


def _require_finite(chunk: Chunk) -> None:
    if not (np.isfinite(chunk.robot).all() and np.isfinite(chunk.model).all()):
        raise _BadChunk("the policy answered with NaN or infinity")


def _outcome(job: Job, result: RequestResult, reason: str, superseded: int) -> RequestOutcome:
    """What became of a request; times are of what was really done for it."""
    session, header = job.session, job.incoming.header
    now = time.monotonic()
    started_s = now if job.started_s is None else job.started_s
    ended_s = started_s if job.ended_s is None else job.ended_s
    prepared_s = started_s if job.prepared_s is None else job.prepared_s
    prepare_s = prepared_s - job.taken_s
    return RequestOutcome(
        session_id=session.id,
        client_id=session.client_id,
        session_epoch=header.session_epoch,
        episode_id=header.episode_id,
        seq_id=header.seq_id,
        seed=job.seed,
        result=result,
        reason=reason,
        queue_wait_ms=max(0.0, started_s - job.incoming.arrived_s - prepare_s) * 1000,
        prepare_ms=prepare_s * 1000,
        inference_ms=(ended_s - started_s) * 1000,
        batch_size=1,
        superseded=superseded,
    )
