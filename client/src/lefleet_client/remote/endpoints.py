"""What a robot declares for one session, and what the transport's threads leave there for it."""

import queue
import time
from contextlib import ExitStack, suppress
from typing import NamedTuple

from lefleet_client.transport import OBSERVATION, Sample, Transport
from lefleet_client.wire import Header, HeaderReader, ServerStatus, ServiceKeys, SessionOpen

_LONGEST = 64
"""More than a server sends between two calls; the oldest messages are dropped."""


class Received(NamedTuple):
    """A message of the server, and when it came on the robot's own clock."""

    header: Header
    payload: bytes
    at_ns: int


class PresenceSeen(NamedTuple):
    """Whether the server's token is there."""

    session_epoch: int
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
    def is_empty(self) -> bool:
        return self._items.empty()

    def wake(self) -> None:
        self._items.put(None)


class SessionEndpoints:
    """The declarations of one session, or of the attempt to open one: all of them, or none.

    The server may send as soon as it knows of the session, so everything is declared before.
    Callbacks only fill the inbox.
    """

    def __init__(
        self,
        transport: Transport,
        status: ServerStatus,
        request: SessionOpen,
        inbox: Inbox,
        headers: HeaderReader,
    ) -> None:
        served = status.capabilities
        service_keys = ServiceKeys(served.model, served.revision, status.service)
        self.server_keys = service_keys.server(status.server)
        self.client_keys = self.server_keys.client(request.client_id)
        epoch = request.session_epoch

        def deposit(sample: Sample) -> None:
            header = headers.read(sample.attachment)
            if header is not None and header.session_epoch == epoch:
                inbox.put(Received(header, sample.payload, time.monotonic_ns()))

        def seen(_: str, is_alive: bool) -> None:
            inbox.put(PresenceSeen(epoch, is_alive))

        with ExitStack() as stack:
            self._publisher = transport.publisher(self.client_keys.obs, OBSERVATION)
            stack.callback(self._publisher.close)
            stack.callback(transport.subscribe(self.client_keys.action, deposit).close)
            stack.callback(transport.watch(self.server_keys.alive, seen).close)
            stack.callback(transport.announce(self.client_keys.alive).close)
            self._declared = stack.pop_all()

    def put(self, body: bytes, header: Header) -> None:
        self._publisher.put(body, header.pack())

    def close(self) -> None:
        """Undeclare everything; closing twice is fine."""
        self._declared.close()
