"""What a robot declares and asks for one session, and what the transport's threads leave for it."""

import logging
import queue
import time
from contextlib import ExitStack, suppress
from typing import NamedTuple

from lefleet_client import wire
from lefleet_client.remote.checks import chunk_bytes
from lefleet_client.remote.discovery import ask_statuses
from lefleet_client.remote.errors import RemoteError
from lefleet_client.remote.states import NoSession
from lefleet_client.transport import (
    OBSERVATION,
    AnswerFailed,
    NoAnswer,
    Sample,
    Transport,
    TransportError,
    ask_one,
    is_gone,
)

_LOG = logging.getLogger(__name__)
_LONGEST = 64
"""More than a server sends between two calls; the oldest messages are dropped."""


class Received(NamedTuple):
    """A message of the server, and when it came on the robot's own clock."""

    header: wire.Header
    payload: bytes
    at_ns: int


class PresenceSeen(NamedTuple):
    """Whether the token under this key is there."""

    key: str
    is_alive: bool


class Inbox:
    """Callbacks put, the caller takes, oldest first; any thread may put, and a signal handler.

    A SimpleQueue is the one kind of queue that a signal handler may put into, whatever code it
    interrupts.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Received | PresenceSeen | None] = queue.SimpleQueue()

    def put(self, item: Received | PresenceSeen) -> None:
        with suppress(queue.Empty):
            while self._items.qsize() >= _LONGEST:
                self._items.get_nowait()
        self._items.put(item)

    def take(self, timeout_s: float) -> Received | PresenceSeen | None:
        """None when nothing came in time, or after `wake`."""
        with suppress(queue.Empty):
            return self._items.get(timeout=max(0.0, timeout_s))
        return None

    @property
    def size(self) -> int:
        return self._items.qsize()

    def wake(self) -> None:
        self._items.put(None)


class SessionEndpoints:
    """What a robot declares and asks for one session, or for the attempt to open one.

    The server may send as soon as it knows of the session, so everything is declared before: all of
    it, or nothing. Callbacks only fill the inbox.
    """

    def __init__(
        self,
        transport: Transport,
        status: wire.ServerStatus,
        request: wire.SessionOpen,
        inbox: Inbox,
    ) -> None:
        served = status.capabilities
        most_bytes = {
            wire.MessageType.CHUNK: chunk_bytes(served),
            wire.MessageType.EVENT: wire.EVENT.limits.max_bytes,
        }
        service_keys = wire.ServiceKeys(served.model, served.revision, status.service)
        self._transport = transport
        self._request = request
        self._server_keys = service_keys.server(status.server)
        self._client_keys = self._server_keys.client(request.client_id)

        def deposit(sample: Sample) -> None:
            try:
                header = wire.Header.unpack(sample.attachment)
            except wire.BadHeader as error:
                _LOG.debug("dropped: %s", error)
                return
            is_ours = header.session_epoch == request.session_epoch
            if is_ours and sample.size <= most_bytes.get(header.message_type, 0):
                inbox.put(Received(header, sample.payload, time.monotonic_ns()))

        with ExitStack() as stack:
            self._publisher = transport.publisher(self._client_keys.obs, OBSERVATION)
            stack.callback(self._publisher.close)
            stack.callback(transport.subscribe(self._client_keys.action, deposit).close)
            stack.callback(transport.announce(self._client_keys.alive).close)
            self._declared = stack.pop_all()

    @property
    def token(self) -> str:
        """The key under which the server is seen."""
        return self._server_keys.alive

    def open(self, timeout_s: float) -> wire.SessionAck | wire.SessionRejected | NoSession:
        try:
            body = wire.SESSION_REQUEST.encode(self._request)
            wire.SESSION_REQUEST.decode(body)
        except wire.BadBody as error:
            raise RemoteError(f"no session can be asked for: {error}") from None
        try:
            answer = ask_one(self._transport, self._client_keys.session, body, timeout_s)
            reply = wire.SESSION_REPLY.decode(answer)
        except (AnswerFailed, NoAnswer, wire.BadBody) as error:
            return NoSession(str(error))
        if isinstance(reply, wire.SessionAck | wire.SessionRejected):
            return reply
        return NoSession(f"it answered {type(reply).__name__}")

    def send(self, body: bytes, header: wire.Header) -> None:
        self._publisher.put(body, header.pack())

    def reset(self, session_id: str, episode_id: int, timeout_s: float) -> wire.ResetReply | None:
        """What the server answers to a new episode; None when the answer is lost."""
        reset = wire.Reset(
            session_id=session_id,
            session_epoch=self._request.session_epoch,
            episode_id=episode_id,
        )
        body = wire.RESET.encode(reset)
        try:
            answer = ask_one(self._transport, self._client_keys.reset, body, timeout_s)
            return wire.RESET_REPLY.decode(answer)
        except (TransportError, wire.BadBody) as error:
            _LOG.debug("reset: %s", error)
            return None

    def is_server_missing(self, timeout_s: float) -> bool:
        """Whether the server's token is gone; False when that cannot be found out."""
        try:
            return is_gone(self._transport, self.token, timeout_s)
        except NoAnswer:
            return False

    def instance_ids(self, timeout_s: float) -> frozenset[str]:
        """Which instances answer under the server's name."""
        statuses, _ = ask_statuses(self._transport, self._server_keys.status, timeout_s)
        return frozenset(one.instance_id for one in statuses)

    def close(self, session_id: str, timeout_s: float) -> None:
        """Undeclare everything; with a session's id, close that on the server before."""
        with self._declared:
            if session_id:
                close = wire.SessionClose(client_id=self._request.client_id, session_id=session_id)
                body = wire.SESSION_REQUEST.encode(close)
                try:
                    ask_one(self._transport, self._client_keys.session, body, timeout_s)
                except TransportError as error:
                    _LOG.debug("closing the session: %s", error)
