"""The table of sessions: opening, replacing, closing."""

import logging
import secrets
import threading
import time
from collections.abc import Callable

from lefleet.policy.pipeline import Pipeline
from lefleet.server.handshake import (
    HandshakeRules,
    Occupancy,
    check_handshake,
    giving_way,
    session_limits,
)
from lefleet.server.rates import OpenLimiter
from lefleet.server.request_queue import RequestQueue
from lefleet.server.session import Session
from lefleet_client import wire
from lefleet_client.transport import ACTION, Transport

_LOG = logging.getLogger(__name__)


class Sessions:
    """Every session, by the segment of its client in the key tree.

    One lock guards the table; handshakes are one at a time, because the transport asks one at a
    time. To close a session, its id is needed too: news about an earlier session of a robot must
    not end the present one. A client has one session at most, so silent ones are bounded by name
    and, like all, by `max_sessions`.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        rules: HandshakeRules,
        queue: RequestQueue,
        *,
        new_pipeline: Callable[[], Pipeline],
        instance_id: str,
        image_codec: wire.CodecChoice,
        load: Callable[[], float],
        first_request_s: float,
        insecure: bool,
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._rules = rules
        self._queue = queue
        self._new_pipeline = new_pipeline
        self._instance_id = instance_id
        self._image_codec = image_codec
        self._load = load
        self._first_request_s = first_request_s
        self._insecure = insecure
        self._limiter = OpenLimiter(rules.max_sessions)
        self._lock = threading.Lock()
        self._by_segment: dict[str, Session] = {}
        self._is_draining = False

    def open(self, asked: wire.SessionOpen) -> wire.SessionReply:
        """A new session, which replaces an earlier one of the same client; or why not."""
        try:
            segment = wire.slug(asked.client_id, "client_id")
        except wire.BadKey as error:
            return wire.SessionRejected(check="name", reason=str(error), load=self._load())
        if busy := self._limiter.excess(segment):
            return self._refused(
                asked, wire.SessionRejected(check="busy", reason=busy, load=self._load())
            )
        silent = self._silent(segment)
        verdict = check_handshake(asked, self._rules, self._occupancy(segment, silent))
        if isinstance(verdict, wire.SessionRejected):
            return self._refused(asked, verdict)
        if silent is not None:
            waited = f"no observation in its first {self._first_request_s:g} s"
            self.close(silent.segment, silent.id, f"{waited}, and another robot needs the place")
        session = Session(
            id=secrets.token_hex(8),
            opened=asked,
            limits=session_limits(asked, self._rules.capabilities),
            schema_version=verdict.schema_version,
            new_pipeline=self._new_pipeline,
            warnings=verdict.warnings,
            publisher=self._transport.publisher(self._keys.client(asked.client_id).action, ACTION),
        )
        self._queue.add(session)
        with self._lock:
            earlier = self._by_segment.get(segment)
            self._by_segment[segment] = session
        if earlier is not None:
            self._end(earlier, wire.REPLACED)
        if self._is_draining:  # It began meanwhile, and may have closed all other sessions already.
            self.close(segment, session.id, "the server stopped")
            return self.open(asked)
        _LOG.info(
            "event=session_opened client=%s session=%s epoch=%d robot_type=%s warnings=%d",
            asked.client_id,
            session.id,
            asked.session_epoch,
            asked.robot_type,
            len(verdict.warnings),
        )
        ours = self._image_codec
        return wire.SessionAck(
            session_id=session.id,
            session_epoch=session.session_epoch,
            schema_version=session.schema_version,
            instance_id=self._instance_id,
            capabilities=self._rules.capabilities,
            image_codec=asked.image_codec if ours == "auto" else ours,
            load=self._load(),
            warnings=verdict.warnings,
            insecure=self._insecure,
        )

    def close(self, segment: str, session_id: str, reason: str) -> bool:
        """End this very session; whether it was there."""
        with self._lock:
            session = self._by_segment.get(segment)
            if session is None or session.id != session_id:
                return False
            del self._by_segment[segment]
        self._end(session, reason)
        return True

    def close_all(self, reason: str) -> None:
        for segment, session in self.snapshot().items():
            self.close(segment, session.id, reason)

    def find(self, segment: str) -> Session | None:
        with self._lock:
            return self._by_segment.get(segment)

    def snapshot(self) -> dict[str, Session]:
        with self._lock:
            return dict(self._by_segment)

    def refuse_new(self) -> None:
        """From here on the server drains."""
        with self._lock:
            self._is_draining = True

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def __len__(self) -> int:
        return len(self._by_segment)

    def _silent(self, segment: str) -> Session | None:
        """The session that gives way to a new one of this client; None where none has to."""
        sessions = self.snapshot()
        if segment in sessions or len(sessions) < self._rules.max_sessions:
            return None
        return giving_way(sessions.values(), time.monotonic(), self._first_request_s)

    def _refused(self, asked: wire.SessionOpen, why: wire.SessionRejected) -> wire.SessionRejected:
        _LOG.info(
            "event=session_refused client=%s check=%s reason=%r",
            asked.client_id,
            why.check,
            why.reason,
        )
        return why

    def _occupancy(self, segment: str, silent: Session | None) -> Occupancy:
        with self._lock:
            holder = self._by_segment.get(segment)
            return Occupancy(
                active=len(self._by_segment) - (holder is not None) - (silent is not None),
                holder="" if holder is None else holder.client_id,
                load=self._load(),
                is_draining=self._is_draining,
            )

    def _end(self, session: Session, reason: str) -> None:
        session.close()
        self._queue.remove(session)
        session.send_event(wire.SessionClosed(reason=reason))
        session.publisher.close()
        counters = session.counters
        _LOG.info(
            "event=session_closed client=%s session=%s answered=%d failed=%d superseded=%d "
            "reason=%r",
            session.client_id,
            session.id,
            counters.answered,
            counters.failed,
            counters.superseded,
            reason,
        )
