"""What a server declares on the network: keys, callbacks and its liveliness token."""

import logging
import time
from contextlib import ExitStack
from typing import Protocol

from lefleet.server.observers import EventCounts
from lefleet.server.reaper import SessionReaper, UnknownClient
from lefleet.server.request_queue import Incoming, RequestQueue
from lefleet.server.sessions import Sessions
from lefleet_client import wire
from lefleet_client.transport import Question, Sample, Transport

_LOG = logging.getLogger(__name__)


class StatusSource(Protocol):
    """The server's status, with its clients or without."""

    def __call__(self, *, with_clients: bool) -> wire.ServerStatus: ...


class Endpoints:
    """Declares what a server receives and answers, and takes it back.

    Callbacks run on the transport's threads, several at the same time, and return at once: they
    put things into queues, or answer from what is known. What is too large or too far ahead is
    refused here, before it costs anything. The thread that declares also closes.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        sessions: Sessions,
        requests: RequestQueue,
        reaper: SessionReaper,
        *,
        status: StatusSource,
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._sessions = sessions
        self._requests = requests
        self._status = status
        self._reaper = reaper
        self._questions = ExitStack()
        self._observations = ExitStack()
        self.dropped = EventCounts()
        """Messages that were dropped, by reason."""

    def declare(self) -> None:
        """Serve robots; the token comes last, when everything behind it works.

        Where one declaration fails, `close` takes back those before it.
        """
        every, transport = self._keys.any_client, self._transport
        answered, received = self._questions.callback, self._observations.callback
        received(transport.subscribe(every.obs, self._receive).close)
        answered(transport.watch(every.alive, self._presence).close)
        answered(transport.serve(every.reset, self._reset).close)
        answered(transport.serve(every.session, self._session).close)
        answered(transport.serve(self._keys.status, self._answer_status).close)
        received(transport.announce(self._keys.alive).close)

    def withdraw(self) -> None:
        """Not be found by new robots, and receive no further observations."""
        self._observations.close()

    def close(self) -> None:
        self.withdraw()
        self._questions.close()

    def _drop(self, reason: str, key: str) -> None:
        if self.dropped.add(reason) == 1:
            _LOG.warning(
                "event=dropped reason=%s key=%r (further ones are only counted)", reason, key[:200]
            )

    def _receive(self, sample: Sample) -> bool:
        """Whether it is of use. A robot that waits for its chunks sends nothing that is not."""
        try:
            header = wire.Header.unpack(sample.attachment)
            segment = wire.parse_key(sample.key).client
        except wire.BadHeader as error:
            self._drop(error.reason, sample.key)
            return False
        except wire.BadKey:
            self._drop("key", sample.key)
            return False
        if header.message_type is not wire.MessageType.OBSERVATION:
            self._drop("not_an_observation", sample.key)
            return False
        session = self._sessions.find(segment)
        if session is None or session.session_epoch != header.session_epoch:
            self._drop("no_session", sample.key)
            if not self._reaper.answer_later(UnknownClient(segment, header)):
                self.dropped.add("unanswered")
            return False
        if (size := sample.size) > (most := session.limits.body.max_bytes):
            self._drop("too_large", sample.key)
            session.refuse(
                header,
                f"observation: {size} bytes, above the {most} that this policy can need; send "
                "smaller images or JPEG, and no cameras that the policy does not use",
            )
            return False
        if jump := session.jump(header.episode_id, header.seq_id):
            self._drop("jump", sample.key)
            session.refuse(header, jump)
            return False
        incoming = Incoming(header, sample.payload)
        session.seen_s = incoming.arrived_s
        return self._requests.put(session, incoming)

    def _presence(self, key: str, is_alive: bool) -> None:
        try:
            self._reaper.seen(wire.parse_key(key).client, is_alive)
        except wire.BadKey:
            self._drop("key", key)

    def _answer_status(self, question: Question) -> bytes:
        request = wire.StatusRequest()
        if question.payload:
            try:
                request = wire.STATUS_REQUEST.decode(question.payload)
            except wire.WireError:
                self._drop("question", question.key)
        return wire.STATUS.encode(self._status(with_clients=request.with_clients))

    def _session(self, question: Question) -> bytes:
        """The reply to opening or closing a session; a request that cannot be read is refused."""
        try:
            segment = wire.parse_key(question.key).client
            reply = self._handshake(segment, wire.SESSION_REQUEST.decode(question.payload))
        except wire.WireError as error:
            self._drop("question", question.key)
            reply = wire.SessionRejected(check="schema", reason=f"it cannot be read: {error}")
        return wire.SESSION_REPLY.encode(reply)

    def _handshake(self, segment: str, request: wire.SessionRequest) -> wire.SessionReply:
        """Access lists bind a robot to the name in its key, so the body must have the same."""
        if wire.slug(request.client_id, "client_id") != segment:
            reason = f"client_id: {request.client_id[:200]!r} asks under the key of {segment!r}"
            return wire.SessionRejected(check="name", reason=reason)
        if isinstance(request, wire.SessionOpen):
            return self._sessions.open(request)
        if self._sessions.close(segment, request.session_id, "the robot closed it"):
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
            # A robot that was replaced must not take its place back.
            reason = "there is no such session" if session is None else wire.REPLACED
            return wire.RESET_REPLY.encode(wire.SessionClosed(reason=reason))
        if jump := session.jump(reset.episode_id):
            self._drop("jump", question.key)
            return wire.RESET_REPLY.encode(wire.SessionClosed(reason=jump))
        session.seen_s = time.monotonic()
        session.enter(reset.episode_id)
        return wire.RESET_REPLY.encode(
            wire.ResetAck(session_id=session.id, episode_id=session.episode_id)
        )
