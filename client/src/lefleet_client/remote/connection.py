"""A robot's connection: performs what the state machine decides, and feeds it what comes back."""

import copy
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from lefleet_client import wire
from lefleet_client.remote.checks import shown
from lefleet_client.remote.discovery import SessionSpec, ask_statuses, named
from lefleet_client.remote.endpoints import Inbox, PresenceSeen, Received, SessionEndpoints
from lefleet_client.remote.errors import RemoteError
from lefleet_client.remote.machine import advance, begin
from lefleet_client.remote.observation import Codec
from lefleet_client.remote.states import (
    Check,
    ClientSession,
    CodecChosen,
    ConnectionAction,
    ConnectionEvent,
    ConnectionNotice,
    ConnectionState,
    Discover,
    ForeignDigest,
    InstancesSeen,
    LeaveServer,
    OpenSession,
    Overtaken,
    Phase,
    ServersFound,
    Signal,
)
from lefleet_client.transport import Declared, Transport

_LOG = logging.getLogger(__name__)
_CHECK_S = 0.5
_SHORTEST_S = 0.05
"""Even at the deadline, a server that answers at once is heard."""


class Arrived(NamedTuple):
    """An answer to an observation or a probe, and when it came on the robot's own clock."""

    message: wire.ActionChunk | wire.RequestFailed | wire.Probed
    at_ns: int


def log_notice(notice: ConnectionNotice) -> None:
    for warning in notice.warnings:
        _LOG.warning("server %s: %s", notice.server, warning)
    if notice.kind == "lost":
        _LOG.info("left server %s, which %s", notice.server, notice.reason)
    elif notice.kind == "overtaken":
        _LOG.warning(
            "server %s has seen newer observations under this client_id than this robot sent (%s); "
            "a new session is opened. Does another program use the client_id?",
            notice.server,
            notice.reason,
        )
    elif notice.kind == "twin":
        _LOG.warning("two servers are named %s; give each its own server_name", notice.server)


class Connection:
    """Finds a server, holds a session on it, and finds another one when that is lost.

    One thread at a time drives it: `ready` until an observation can be sent, `send`, `receive`.
    A driver that must not wait for so long calls `poll`, which never blocks, and `step`, which
    performs one action. `listener` gets the news, on the driver's thread. All state is the
    machine's; only `end` may be called by another thread, or by a signal handler.
    """

    def __init__(
        self,
        transport: Transport,
        spec: SessionSpec,
        *,
        ask_timeout_s: float,
        listener: Callable[[ConnectionNotice], None] = log_notice,
    ) -> None:
        self._transport = transport
        self._ask_timeout_s = ask_timeout_s
        self._listener = listener
        self._inbox = Inbox()
        self._ignored = 0
        self._episode_id = self._seq_id = 0
        self._endpoints: SessionEndpoints | None = None
        self._watch: Declared | None = None
        self._is_ending = False
        self._state, actions = begin(spec, random.randrange(2**32))
        self._actions: deque[ConnectionAction] = deque(actions)

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def session(self) -> ClientSession:
        """The newest session, open or lost; there is one after the first `ready`."""
        if self._state.session is None:
            raise self._trouble()
        return self._state.session

    @property
    def ignored(self) -> int:
        """Messages of the newest session that were dropped, because they cannot be read."""
        return self._ignored

    @property
    def is_ending(self) -> bool:
        return self._is_ending

    def end(self) -> None:
        """Open no other session, and wake a waiting driver; a signal handler may call."""
        self._is_ending = True
        self._inbox.wake()

    def listen(self, listener: Callable[[ConnectionNotice], None]) -> None:
        """Give the news to this listener from now on."""
        self._listener = listener

    def require_open(self) -> None:
        if self._is_ending:
            raise RemoteError("this RemotePolicy is closed; make a new one")

    def begin_send(self) -> None:
        """Read the news; leave a server that went away or drains."""
        self.poll()
        self._feed(Signal.SEND_ASKED)

    def ready(self, deadline_s: float) -> ClientSession:
        """A session to send in; until the deadline it waits for one. Raises why there is none."""
        while True:
            self.require_open()
            is_late = time.monotonic() >= deadline_s
            if is_late or not self._actions:
                self.raise_failure()
                if self._state.phase is Phase.OPEN:
                    return self.session
            if is_late:
                raise self._trouble()
            self.step(deadline_s)

    def raise_failure(self) -> None:
        """Raise the error of a connection that failed; it then starts over, unless it cannot."""
        if self._state.phase is Phase.FAILED:
            raise self._trouble()

    def step(self, deadline_s: float) -> None:
        """Perform the next action, or wait for news of the server until the deadline.

        Where chunks are awaited, `receive` is what to call: here they are dropped.
        """
        self.require_open()
        if not self._actions and self._state.is_busy:
            # An exception, perhaps KeyboardInterrupt, ended the action or lost what it gave back.
            self._feed(Signal.INTERRUPTED)
        if not self._actions:
            self.receive(deadline_s)
            return
        event = self._perform(self._actions.popleft(), _left_s(deadline_s))
        if event is not None:
            self._feed(event)

    def poll(self) -> None:
        """Read what has come since the last call, without waiting; chunks among it are too late."""
        for _ in range(self._inbox.size):  # What comes meanwhile could go on without end.
            self.receive(0.0)
        self._feed(Signal.TICK)

    def send(self, body: bytes, seq_id: int, episode_id: int, client_mono_ns: int) -> None:
        """Publish an observation, in the version that the server agreed to."""
        ack = self.session.ack
        self._episode_id, self._seq_id = episode_id, seq_id
        header = wire.Header(
            wire.MessageType.OBSERVATION,
            seq_id=seq_id,
            episode_id=episode_id,
            client_mono_ns=client_mono_ns,
            session_epoch=ack.session_epoch,
            schema_version=ack.schema_version,
        )
        if self._endpoints is not None:
            self._endpoints.send(body, header)

    def receive(self, until_s: float) -> Arrived | None:
        """What the server answered. None: nothing in time, or there is news of the server."""
        now_s = time.monotonic()
        item = self._inbox.take(min(until_s, self._state.wake_at_s) - now_s)
        if item is None:
            self._feed(Signal.TICK)
        elif isinstance(item, PresenceSeen):
            if self._endpoints is not None and item.key == self._endpoints.token:
                self._feed(Signal.PRESENCE_BACK if item.is_alive else Signal.PRESENCE_LOST)
            elif item.is_alive:
                self._feed(Signal.SERVER_APPEARED)
        elif self._state.phase is Phase.OPEN and self._is_of_session(item.header):
            return self._read(item)
        return None

    def overdue(self) -> None:
        """Say that the last observation stayed unanswered; `ready` then looks after the server."""
        self._feed(Signal.ANSWER_OVERDUE)

    def give_up(self) -> None:
        self._feed(Signal.GIVEN_UP)

    def overtaken(self, reason: str) -> None:
        self._feed(Overtaken(reason))

    def answered(self) -> None:
        self._feed(Signal.ANSWERED)

    def choose_codec(self, codec: Codec) -> None:
        self._feed(CodecChosen(codec))

    def reset(self, episode_id: int, timeout_s: float) -> bool:
        """Tell the server that an episode begins; False when its answer is lost.

        Without a usable session nothing is said: the next observation has the episode's number.
        """
        self._episode_id = episode_id
        self.poll()
        if not self._state.is_usable or self._endpoints is None:
            return True
        reply = self._endpoints.reset(self.session.ack.session_id, episode_id, timeout_s)
        if isinstance(reply, wire.SessionClosed):
            self._feed(reply)
            return True
        if reply is not None and reply.episode_id > episode_id:
            self.overtaken(f"{wire.NEWER}: episode {reply.episode_id} has begun")
            return True
        return reply is not None and reply.episode_id == episode_id

    def close(self) -> None:
        """End the session, and tell the server if it is there; closing twice is fine."""
        self._is_ending = True
        self._actions.clear()
        self._feed(Signal.CLOSE_ASKED)
        while self._actions:
            self._perform(self._actions.popleft(), _CHECK_S)
        if self._watch is not None:
            self._watch.close()

    def _seen(self, key: str, is_alive: bool) -> None:
        """Runs on a thread of the transport."""
        self._inbox.put(PresenceSeen(key, is_alive))

    def _trouble(self) -> RemoteError:
        """The trouble to raise: a copy, because the state must not hold the frames of a caller."""
        trouble = copy.copy(self._state.trouble)
        self._feed(Signal.FAILURE_RAISED)
        return trouble

    def _feed(self, event: ConnectionEvent) -> None:
        self._state, actions = advance(self._state, event, time.monotonic())
        self._actions.extend(one for one in actions if not isinstance(one, ConnectionNotice))
        for notice in actions:
            if isinstance(notice, ConnectionNotice):
                self._listener(notice)

    def _perform(self, action: ConnectionAction, left_s: float) -> ConnectionEvent | None:
        if isinstance(action, Discover):
            return self._discover(action, min(left_s, self._ask_timeout_s / 2))
        if isinstance(action, LeaveServer):
            self._leave(action.session_id, min(_CHECK_S, left_s))
            return None
        if isinstance(action, OpenSession):
            self._leave()
            self._ignored = 0
            request = self._state.spec.opening(
                action.status,
                action.session_epoch,
                episode_id=self._episode_id,
                seq_id=self._seq_id,
            )
            self._endpoints = SessionEndpoints(self._transport, action.status, request, self._inbox)
            most_s = left_s if action.is_last else self._ask_timeout_s
            return self._endpoints.open(min(left_s, most_s))
        if self._endpoints is None:
            return None
        if action is Check.PRESENCE:
            is_missing = self._endpoints.is_server_missing(min(_CHECK_S, left_s))
            return Signal.SERVER_MISSING if is_missing else None
        if action is Check.INSTANCE:
            return InstancesSeen(self._endpoints.instance_ids(min(_CHECK_S, left_s)))
        return None

    def _leave(self, session_id: str = "", timeout_s: float = 0.0) -> None:
        endpoints, self._endpoints = self._endpoints, None
        if endpoints is not None:
            endpoints.close(session_id, timeout_s)

    def _discover(self, action: Discover, timeout_s: float) -> ServersFound:
        until_s = time.monotonic() + timeout_s
        keys = wire.matching_servers("", "", action.service)
        if self._watch is None:
            # From here on servers that come and go are heard of, so searches can be rare.
            self._watch = self._transport.watch(keys.alive, self._seen)
        statuses, is_complete = ask_statuses(self._transport, keys.status, timeout_s)
        servers = tuple(named(statuses, service=action.service))
        if servers or not action.with_others:
            return ServersFound(servers, is_complete=is_complete)
        everything = wire.matching_servers("", "", "")
        others, are_all = ask_statuses(self._transport, everything.status, _left_s(until_s))
        servers = tuple(named(others, service=action.service))
        return ServersFound(servers, () if servers else others, is_complete and are_all)

    def _is_of_session(self, header: wire.Header) -> bool:
        """Whether epoch and schema version are the session's; other messages are dropped."""
        ack = self.session.ack
        if header.session_epoch != ack.session_epoch:
            return False
        if header.schema_version != ack.schema_version:
            self._ignore(
                f"a message of schema version {header.schema_version} is dropped, the session is "
                f"of {ack.schema_version}"
            )
        return header.schema_version == ack.schema_version

    def _ignore(self, text: str) -> None:
        self._ignored += 1
        if self._ignored == 1:
            server = self.session.status.server
            _LOG.warning("server %s: %s (further ones are only counted)", server, shown(text, 400))

    def _read(self, item: Received) -> Arrived | None:
        session = self.session
        try:
            if item.header.message_type is wire.MessageType.CHUNK:
                chunk = wire.CHUNK.decode(item.payload)
                if chunk.digest == session.ack.capabilities.digest:
                    return Arrived(chunk, item.at_ns)
                self._feed(ForeignDigest(chunk.digest))
                return None
            event = wire.EVENT.decode(item.payload)
        except wire.BadBody as error:
            self._ignore(f"a message cannot be read: {error}")
            return None
        if isinstance(event, wire.Draining | wire.SessionClosed):
            self._feed(event)
            return None
        return Arrived(event, item.at_ns)


def _left_s(deadline_s: float) -> float:
    return max(_SHORTEST_S, deadline_s - time.monotonic())
