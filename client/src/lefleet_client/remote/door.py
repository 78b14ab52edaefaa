"""Who may call: one thread at a time, until any thread or a signal handler closes."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lefleet_client.remote.connection import Connection
from lefleet_client.remote.errors import RemoteError
from lefleet_client.transport import TransportError
from lefleet_client.transport.ending import ENDING

_WAKE_S = 0.02


class _Here(threading.local):
    """How often this thread is inside; a signal handler runs on top of what it interrupts."""

    depth = 0


class Door:
    """Lets callers in to a connection, and closes it when the last one has left.

    One lock is held for the length of a call, and while closing. A signal handler that closes may
    have interrupted the holder, so it takes no lock: it says that the connection ends, and the
    interrupted frame closes on its way out. `_here` is raised before the lock is taken and lowered
    after it is released, so no handler can find the lock taken by a frame that it does not know of.

    It knows nothing of the RemotePolicy that it belongs to, and so can close what a forgotten one
    leaves behind.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._busy = threading.Lock()
        self._here = _Here()
        self._pid = os.getpid()
        ENDING.add(self, self.close)

    @contextmanager
    def caller(self) -> Iterator[None]:
        if os.getpid() != self._pid:
            raise RemoteError(
                "this RemotePolicy was made before a fork, and its network stayed with the parent; "
                "make it in the child, and use the spawn start method"
            )
        self._here.depth += 1
        try:
            if not self._busy.acquire(blocking=False):
                raise RemoteError(
                    "another thread is in a call of this RemotePolicy; one thread at a time, or "
                    "one RemotePolicy for each"
                )
            try:
                self._connection.require_open()
                yield
            except TransportError as error:
                self._connection.require_open()
                raise RemoteError(f"{error}; make a new RemotePolicy") from None
            finally:
                self._busy.release()
        finally:
            self._here.depth -= 1
            if self._connection.is_ending:
                self.close()

    def close(self) -> None:
        """End a call that is under way, and close when it has ended; any thread may call."""
        if os.getpid() != self._pid:
            return
        self._connection.end()
        if self._here.depth:
            return
        self._here.depth += 1
        try:
            while not self._busy.acquire(timeout=_WAKE_S):
                # It may be on another link by now than when it was told.
                self._connection.end()
            try:
                self._connection.close()
                ENDING.remove(self)
            finally:
                self._busy.release()
        finally:
            self._here.depth -= 1
