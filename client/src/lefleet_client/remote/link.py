"""One session on one server: what is declared for it, what goes out and what comes in."""

import logging
import time
from dataclasses import dataclass

from lefleet_client.remote.encoding import Codec
from lefleet_client.remote.errors import RemoteError
from lefleet_client.remote.inbox import Inbox, Letter, Presence
from lefleet_client.transport import (
    OBSERVATION,
    Declared,
    NoAnswer,
    Sample,
    Transport,
    TransportError,
    ask_one,
    is_gone,
)
from lefleet_client.wire import (
    CHUNK,
    EVENT,
    RESET,
    RESET_REPLY,
    SCHEMA_VERSION,
    SESSION_REPLY,
    SESSION_REQUEST,
    ActionChunk,
    BadBody,
    Draining,
    Event,
    Header,
    HeaderReader,
    MessageType,
    Probed,
    RequestFailed,
    Reset,
    ServerStatus,
    ServiceKeys,
    SessionAck,
    SessionClose,
    SessionClosed,
    SessionOpen,
    SessionReply,
)

_LOG = logging.getLogger(__name__)
_GOODBYE_S = 0.5


@dataclass(frozen=True)
class Arrived:
    """A chunk, and when it came on the robot's own clock."""

    chunk: ActionChunk
    at_ns: int


class Link:
    """A session, or the attempt at one. It belongs to one caller; callbacks only fill the inbox.

    `is_draining`, `is_gone` and `closed_because` are news of the server, as far as `receive` has
    read them. `codec` is unset until images are first sent.
    """

    def __init__(
        self,
        transport: Transport,
        status: ServerStatus,
        opening: SessionOpen,
    ) -> None:
        served = status.capabilities
        names = ServiceKeys(served.model, served.revision, status.service)
        self._transport = transport
        self._opening = opening
        self._server_keys = names.server(status.server)
        self._keys = self._server_keys.client(opening.client_id)
        self._headers = HeaderReader()
        self._inbox = Inbox()
        self._session_id = ""
        self._schema_version = SCHEMA_VERSION
        self._is_woken = False
        self.server = status.server
        self.service = status.service
        self.is_draining = False
        self.is_gone = False
        self.closed_because = ""
        self.codec: Codec | None = None
        # The server may speak as soon as it knows of the session: everything is there before.
        self._publisher = transport.publisher(self._keys.obs, OBSERVATION)
        self._declared: list[Declared] = [
            self._publisher,
            transport.subscribe(self._keys.action, self._deposit),
            transport.watch(self._server_keys.alive, self._seen),
            transport.announce(self._keys.alive),
        ]

    def open(self, timeout_s: float) -> SessionReply:
        """Ask for the session."""
        body = SESSION_REQUEST.encode(self._opening)
        try:
            SESSION_REQUEST.decode(body)
        except BadBody as error:
            raise RemoteError(f"no session can be asked for: {error}") from None
        answer = ask_one(self._transport, self._server_keys.session, body, timeout_s)
        reply = SESSION_REPLY.decode(answer)
        if isinstance(reply, SessionAck):
            self._session_id = reply.session_id
            self._schema_version = reply.schema_version
        return reply

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return bool(self.closed_because) or self._is_woken

    @property
    def is_usable(self) -> bool:
        """Whether the next observation can go here."""
        return not (self.is_draining or self.is_gone or self.is_over)

    @property
    def state(self) -> str:
        """What is known of the server, to end a sentence."""
        if self.is_draining:
            return "is about to stop"
        return "went away" if self.is_gone else "seems to be alive"

    def send(self, body: bytes, seq_id: int, episode_id: int, client_mono_ns: int) -> None:
        """Publish an observation, in the version that the server agreed to."""
        header = Header(
            MessageType.OBSERVATION,
            seq_id=seq_id,
            episode_id=episode_id,
            client_mono_ns=client_mono_ns,
            session_epoch=self._opening.session_epoch,
            schema_version=self._schema_version,
        )
        self._publisher.put(body, header.pack())

    def receive(self, timeout_s: float) -> Arrived | RequestFailed | Probed | None:
        """What the server answered. None: nothing in time, or there is news of the server."""
        item = self._inbox.take(timeout_s)
        if isinstance(item, Presence):
            self.is_gone = not item.is_alive
        if not isinstance(item, Letter):
            return None
        try:
            if item.header.message_type is MessageType.CHUNK:
                return Arrived(CHUNK.decode(item.payload), item.at_ns)
            return self._read(EVENT.decode(item.payload))
        except BadBody as error:
            _LOG.warning("server %s: a message cannot be read: %s", self.server, error)
            return None

    def catch_up(self) -> None:
        """Read what has come since the last call; chunks among it are for nobody."""
        while not self._inbox.is_empty:
            self.receive(0.0)

    def is_present(self, timeout_s: float) -> bool:
        """Whether the server can be seen now, or nobody says that it cannot."""
        try:
            return not is_gone(self._transport, self._server_keys.alive, timeout_s)
        except NoAnswer:
            return True

    def reset(self, episode_id: int, timeout_s: float) -> bool:
        """Tell the server that an episode begins; False when its answer is lost."""
        body = RESET.encode(
            Reset(
                session_id=self._session_id,
                session_epoch=self._opening.session_epoch,
                episode_id=episode_id,
            )
        )
        try:
            reply = RESET_REPLY.decode(ask_one(self._transport, self._keys.reset, body, timeout_s))
        except (TransportError, BadBody) as error:
            _LOG.debug("reset: %s", error)
            return False
        if isinstance(reply, SessionClosed):
            self.closed_because = reply.reason or "closed"
        return isinstance(reply, SessionClosed) or reply.episode_id == episode_id

    def wake(self) -> None:
        """Let a waiting caller go; any thread may call, and a signal handler."""
        self._is_woken = True
        self._inbox.wake()

    def close(self, *, say_goodbye: bool) -> None:
        """Take everything back; with a goodbye the server's place is free at once."""
        has_session = bool(self._session_id) and not self.closed_because
        if say_goodbye and has_session and not self.is_gone:
            self._say_goodbye()
        self.closed_because = self.closed_because or "closed here"
        for one in reversed(self._declared):
            one.close()

    def _say_goodbye(self) -> None:
        body = SESSION_REQUEST.encode(
            SessionClose(client_id=self._opening.client_id, session_id=self._session_id)
        )
        try:
            ask_one(self._transport, self._server_keys.session, body, _GOODBYE_S)
        except TransportError as error:
            _LOG.debug("goodbye: %s", error)

    def _read(self, event: Event) -> RequestFailed | Probed | None:
        if isinstance(event, Draining):
            self.is_draining = True
        elif isinstance(event, SessionClosed):
            # The first reason is the cause; later ones only answer what was sent meanwhile.
            self.closed_because = self.closed_because or event.reason or "closed"
        else:
            return event
        return None

    def _deposit(self, sample: Sample) -> None:
        header = self._headers.read(sample.attachment)
        if header is not None and header.session_epoch == self._opening.session_epoch:
            self._inbox.put(Letter(header, sample.payload, time.monotonic_ns()))

    def _seen(self, key: str, is_alive: bool) -> None:  # noqa: ARG002
        self._inbox.put(Presence(is_alive))
