"""One caller at a time for a connection, and closing it from anywhere."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lefleet_client.remote.connection import Connection
from lefleet_client.remote.errors import RemoteError
from lefleet_client.transport import CloseAtExit, Transport, TransportError

_WAKE_S = 0.02


class _Here(threading.local):
    """Whether this thread is in a call: a signal handler runs on top of what it interrupts."""

    is_in_call = False


class CallGuard:
    """Lets one thread at a time use a connection, until any thread or a signal handler closes it.

    One lock is held for the length of a call, and while closing. A signal handler that closes may
    have interrupted the holder, so it takes no lock: it ends the connection, and the interrupted
    frame closes on its way out. `is_in_call` is set before the lock is taken and reset after it is
    released, so no handler finds the lock taken by a frame that it does not know of. An exception
    of a handler, such as KeyboardInterrupt, can come before the result of `acquire` is known. So a
    lock that may be held is released: an RLock refuses that to all but its holder.

    It does not keep its RemotePolicy alive, and closes for one that is garbage.
    """

    def __init__(
        self, connection: Connection, owned: tuple[Transport, ...], policy: object
    ) -> None:
        self._connection = connection
        self._owned = owned
        self._busy = threading.RLock()
        self._here = _Here()
        self._pid = os.getpid()
        try:
            self._at_exit = CloseAtExit(self.close, policy)
        except TransportError as error:
            for transport in owned:
                transport.close()
            raise RemoteError(str(error)) from None

    @contextmanager
    def call(self) -> Iterator[Connection]:
        if os.getpid() != self._pid:
            raise RemoteError(
                "this RemotePolicy was made before a fork, and its network stayed with the parent; "
                "make it in the child, and use the spawn start method"
            )
        if self._here.is_in_call:
            raise RemoteError("this thread is in a call of this RemotePolicy; one call at a time")
        try:
            self._here.is_in_call = True
            try:
                if not self._busy.acquire(blocking=False):
                    raise RemoteError(
                        "another thread is in a call of this RemotePolicy; one thread at a time, "
                        "or one RemotePolicy for each"
                    )
                self._connection.require_open()
                yield self._connection
            except TransportError as error:
                self._connection.require_open()
                raise RemoteError(f"{error}; make a new RemotePolicy") from None
            finally:
                try:  # noqa: SIM105 - a handler could raise while `suppress` is called
                    self._busy.release()
                except RuntimeError:
                    pass
        finally:
            self._here.is_in_call = False
            if self._connection.is_ending:
                self.close()

    def close(self) -> None:
        """End a call in flight, and close when it has ended; any thread may call."""
        if os.getpid() != self._pid:
            return
        self._connection.end()
        if self._here.is_in_call:
            return
        try:
            self._here.is_in_call = True
            try:
                while not self._busy.acquire(timeout=_WAKE_S):
                    # The call may have started to wait again since it was woken.
                    self._connection.end()
                self._connection.close()
                for transport in self._owned:
                    transport.close()
                self._at_exit.cancel()
            finally:
                try:  # noqa: SIM105 - a handler could raise while `suppress` is called
                    self._busy.release()
                except RuntimeError:
                    pass
        finally:
            self._here.is_in_call = False
