"""Keys and callbacks: the network's side of a server."""

import logging
import queue
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from lefleet.server.board import Board, Mail
from lefleet.server.sessions import Sessions
from lefleet_client import wire
from lefleet_client.transport import Declared, Question, Sample, Transport

_LOG = logging.getLogger(__name__)

STRANGERS = 256
"""So many observations without a session are remembered at most, to be answered."""


class StatusSource(Protocol):
    """Says how the server is, with its robots or without."""

    def __call__(self, *, with_clients: bool) -> wire.ServerStatus: ...


class Stranger(NamedTuple):
    """Somebody who sends observations without a session."""

    place: str
    header: wire.Header


class Wiring:
    """Declares what a server says and hears, and takes it back.

    Callbacks run on the transport's threads and only deposit. Questions are answered at once; a
    handshake copies a pipeline, which takes milliseconds.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        sessions: Sessions,
        board: Board,
        *,
        status: StatusSource,
        seen: Callable[[str, bool], None],
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._sessions = sessions
        self._board = board
        self._status = status
        self._seen = seen
        self._dropped = Counter[str]()
        self._declared: list[Declared] = []
        self.strangers: queue.Queue[Stranger] = queue.Queue(STRANGERS)

    def declare(self) -> None:
        """Be there for robots; the token comes last, when everything behind it works."""
        every = self._keys.any_client
        transport = self._transport
        self._subscription = transport.subscribe(every.obs, self._deposit)
        self._declared = [
            self._subscription,
            transport.watch(every.alive, self._presence),
            transport.serve(every.reset, self._reset),
            transport.serve(self._keys.session, self._session),
            transport.serve(self._keys.status, self._answer_status),
        ]
        self._token = transport.announce(self._keys.alive)

    def withdraw(self) -> None:
        """Not be found by new robots, and hear no further observations."""
        self._token.close()
        self._subscription.close()

    def undeclare(self) -> None:
        for one in self._declared:
            one.close()

    @property
    def dropped(self) -> dict[str, int]:
        """Messages that nothing was done with, by reason."""
        return dict(self._dropped)

    def _drop(self, reason: str, key: str) -> None:
        self._dropped[reason] += 1
        if self._dropped[reason] == 1:
            _LOG.warning(
                "event=dropped reason=%s key=%r: said once, then counted", reason, key[:200]
            )

    def _deposit(self, sample: Sample) -> None:
        try:
            header = wire.Header.unpack(sample.attachment)
            place = wire.parse_key(sample.key).client
        except wire.BadHeader as error:
            self._drop(error.reason, sample.key)
            return
        except wire.BadKey:
            self._drop("key", sample.key)
            return
        if header.message_type is not wire.MessageType.OBSERVATION:
            self._drop("not_an_observation", sample.key)
            return
        session = self._sessions.find(place)
        if session is None or session.epoch != header.session_epoch:
            self._drop("no_session", sample.key)
            self._remember(Stranger(place, header))
            return
        if len(sample.payload) > wire.OBSERVATION.max_bytes:
            self._drop("too_large", sample.key)
            return
        mail = Mail(header, sample.payload)
        session.seen_s = mail.arrived_s
        self._board.deposit(session, mail)

    def _remember(self, stranger: Stranger) -> None:
        try:
            self.strangers.put_nowait(stranger)
        except queue.Full:
            self._dropped["strangers"] += 1

    def _presence(self, key: str, is_alive: bool) -> None:
        try:
            self._seen(wire.parse_key(key).client, is_alive)
        except wire.BadKey:
            self._drop("key", key)

    def _answer_status(self, question: Question) -> bytes:
        payload = question.payload
        request = wire.STATUS_REQUEST.decode(payload) if payload else wire.StatusRequest()
        return wire.STATUS.encode(self._status(with_clients=request.with_clients))

    def _session(self, question: Question) -> bytes:
        """The reply to a handshake or a goodbye; one that cannot be read is refused."""
        try:
            reply = self._handshake(wire.SESSION_REQUEST.decode(question.payload))
        except wire.WireError as error:
            self._drop("question", question.key)
            reply = wire.SessionRejected(check="schema", reason=f"it cannot be read: {error}")
        return wire.SESSION_REPLY.encode(reply)

    def _handshake(self, request: wire.SessionRequest) -> wire.SessionReply:
        if isinstance(request, wire.SessionOpen):
            return self._sessions.open(request)
        place = wire.slug(request.client_id, "client_id")
        if self._sessions.close(place, request.session_id, "the robot closed it"):
            return wire.SessionCloseAck(session_id=request.session_id)
        return wire.SessionClosed(reason="there is no such session")

    def _reset(self, question: Question) -> bytes:
        try:
            reset = wire.RESET.decode(question.payload)
            session = self._sessions.find(wire.parse_key(question.key).client)
        except wire.WireError:
            self._drop("question", question.key)
            session = None
        if session is None or session.id != reset.session_id:
            return wire.RESET_REPLY.encode(wire.SessionClosed(reason="there is no such session"))
        session.seen_s = time.monotonic()
        session.enter(reset.episode_id)
        return wire.RESET_REPLY.encode(
            wire.ResetAck(session_id=session.id, episode_id=session.episode_id)
        )
