"""The table of sessions: opening, replacing, closing."""

import logging
import secrets
import threading
from collections.abc import Callable

from lefleet.policy.served import ServedPolicy
from lefleet.server.board import Board
from lefleet.server.handshake import Situation, Terms, judge
from lefleet.server.session import Session
from lefleet_client import wire
from lefleet_client.transport import ACTION, Transport

_LOG = logging.getLogger(__name__)


class Sessions:
    """Every session by its client's place in the key tree.

    One lock guards the table; handshakes are one at a time, because the transport asks one at a
    time. Whoever removes a session names the very one that is meant: news about an earlier
    incarnation of a robot must not end the present one.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        policy: ServedPolicy,
        terms: Terms,
        board: Board,
        *,
        instance_id: str,
        image_codec: wire.CodecChoice,
        load: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._policy = policy
        self._terms = terms
        self._board = board
        self._instance_id = instance_id
        self._image_codec = image_codec
        self._load = load
        self._lock = threading.Lock()
        self._by_client: dict[str, Session] = {}
        self._is_draining = False

    def open(self, asked: wire.SessionOpen) -> wire.SessionReply:
        """A new session, which replaces an earlier one of the same client; or why not."""
        try:
            place = wire.slug(asked.client_id, "client_id")
        except wire.BadKey as error:
            return wire.SessionRejected(check="name", reason=str(error), load=self._load())
        verdict = judge(asked, self._terms, self._situation(place))
        if isinstance(verdict, wire.SessionRejected):
            _LOG.info(
                "event=session_refused client=%s check=%s reason=%r",
                asked.client_id,
                verdict.check,
                verdict.reason,
            )
            return verdict
        session = Session(
            id=secrets.token_hex(8),
            opened=asked,
            schema_version=verdict.schema_version,
            pipeline=self._policy.new_pipeline(),
            publisher=self._transport.publisher(self._keys.client(asked.client_id).action, ACTION),
        )
        self._board.add(session)
        with self._lock:
            earlier = self._by_client.get(place)
            self._by_client[place] = session
        if earlier is not None:
            self._end(earlier, wire.REPLACED)
        _LOG.info(
            "event=session_opened client=%s session=%s epoch=%d robot_type=%s warnings=%d",
            asked.client_id,
            session.id,
            asked.session_epoch,
            asked.robot_type,
            len(verdict.warnings),
        )
        return self._ack(session, verdict.warnings)

    def close(self, place: str, session_id: str, reason: str) -> bool:
        """End this very session; whether it was there."""
        with self._lock:
            session = self._by_client.get(place)
            if session is None or session.id != session_id:
                return False
            del self._by_client[place]
        self._end(session, reason)
        return True

    def close_all(self, reason: str) -> None:
        for place, session in self.snapshot().items():
            self.close(place, session.id, reason)

    def find(self, place: str) -> Session | None:
        with self._lock:
            return self._by_client.get(place)

    def snapshot(self) -> dict[str, Session]:
        with self._lock:
            return dict(self._by_client)

    def refuse_new(self) -> None:
        """From here on the server drains."""
        with self._lock:
            self._is_draining = True

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def __len__(self) -> int:
        return len(self._by_client)

    def _situation(self, place: str) -> Situation:
        with self._lock:
            holder = self._by_client.get(place)
            return Situation(
                active=len(self._by_client) - (holder is not None),
                holder="" if holder is None else holder.client_id,
                load=self._load(),
                is_draining=self._is_draining,
            )

    def _end(self, session: Session, reason: str) -> None:
        session.close()
        self._board.remove(session)
        session.tell(wire.SessionClosed(reason=reason))
        session.publisher.close()
        _LOG.info(
            "event=session_closed client=%s session=%s answered=%d failed=%d superseded=%d "
            "reason=%r",
            session.client_id,
            session.id,
            session.tally.answered,
            session.tally.failed,
            session.tally.superseded,
            reason,
        )

    def _ack(self, session: Session, warnings: tuple[str, ...]) -> wire.SessionAck:
        ours = self._image_codec
        return wire.SessionAck(
            session_id=session.id,
            session_epoch=session.epoch,
            schema_version=session.schema_version,
            instance_id=self._instance_id,
            capabilities=self._terms.capabilities,
            image_codec=session.opened.image_codec if ours == "auto" else ours,
            load=self._load(),
            warnings=warnings,
        )
