"""Closes what a program forgot, and keeps Zenoh and the end of the interpreter apart.

A thread that is inside Zenoh when the interpreter ends aborts the process: Python ends the thread
as it comes back, and Zenoh's Rust code does not survive that. Releasing the last reference to an
object of Zenoh counts as well. So all of that happens in `inside_zenoh` or on a `TransportThread`,
and Python does not go on before both are done.

A program is over when its main thread and all its other non-daemon threads have ended, whether they
use a transport or not.
"""

import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lefleet_client.transport.errors import Closed, ThreadsEnded
from lefleet_client.transport.seam import attempt

Close = Callable[[], None]


class TransportThread(threading.Thread):
    """A thread of this package. It ends by itself when everything is closed.

    It is no daemon, also when a daemon thread starts it: Python waits for it before it ends.
    """

    def __init__(self, name: str, target: Callable[..., None], *values: object) -> None:
        super().__init__(name=name, target=target, args=values, daemon=False)

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError:
            raise ThreadsEnded(
                "the main thread has ended, and Python starts no further threads; let it wait for "
                "the threads that use the network, with join()"
            ) from None


class _Exit:
    """What is open, and how many threads are inside Zenoh; one lock guards both.

    Two threads are started with the first use. `exit watcher` waits until the program is over.
    `closer` closes what finalizers hand to it: they run anywhere, also where locks are held. When
    the program is over, it closes what is open, the last first, lets no thread into Zenoh any more
    and waits for those that are inside.

    The main thread is not counted: it is what ends the interpreter. The lock can be taken again by
    a signal handler that interrupts its holder.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._open: dict[CloseAtExit, None] = {}
        self._requests: queue.SimpleQueue[Close | None] = queue.SimpleQueue()
        self._inside = 0
        self._has_threads = False
        self._is_closing = False
        self._is_over = False

    def start(self) -> None:
        with self._changed:
            if not self._has_threads:
                TransportThread("exit watcher", self._watch).start()
                TransportThread("closer", self._run).start()
                self._has_threads = True

    def add(self, entry: "CloseAtExit") -> None:
        self.start()
        with self._changed:
            if self._is_closing:
                raise Closed("the program is ending")
            self._open[entry] = None

    def remove(self, entry: "CloseAtExit") -> None:
        with self._changed:
            self._open.pop(entry, None)

    def close_soon(self, close: Close) -> None:
        """Close on another thread; may be called from anywhere, also by a finalizer."""
        self._requests.put(close)

    def enter(self) -> None:
        self.start()
        with self._changed:
            if self._is_over:
                raise Closed("the program is ending")
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def _watch(self) -> None:
        threading.main_thread().join()
        while users := [one for one in threading.enumerate() if _keeps_program_running(one)]:
            users[0].join()
        self._requests.put(None)

    def _run(self) -> None:
        while (close := self._requests.get()) is not None:
            attempt("close what was not closed", close)
            # What it holds must be released now, not when the next one comes.
            del close
        while (entry := self._take_open()) is not None:
            attempt("close at exit", entry.close)
        with self._changed:
            self._is_over = True
            self._changed.wait_for(lambda: self._inside == 0)

    def _take_open(self) -> "CloseAtExit | None":
        with self._changed:
            self._is_closing = True
            return self._open.popitem()[0] if self._open else None


def _keeps_program_running(thread: threading.Thread) -> bool:
    is_other = thread is not threading.main_thread() and not isinstance(thread, TransportThread)
    return is_other and not thread.daemon and thread.is_alive()


_exit = _Exit()


def _replace_exit() -> None:
    global _exit  # noqa: PLW0603 - a forked child inherits neither threads nor open sessions
    _exit = _Exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_exit)


class CloseAtExit:
    """Calls `close` when the program is over; with an `owner` also when that is garbage.

    `close` must not hold its owner. Whoever closes before that cancels.
    """

    def __init__(self, close: Close, owner: object | None = None) -> None:
        self.close = close
        self._exit = _exit
        self._exit.add(self)
        self._finalizer: weakref.finalize[..., object] | None = None
        if owner is not None:
            self._finalizer = weakref.finalize(owner, self._exit.close_soon, close)
            self._finalizer.atexit = False

    def cancel(self) -> None:
        """It is closed."""
        self._exit.remove(self)
        if self._finalizer is not None:
            self._finalizer.detach()


class _Here(threading.local):
    """Whether this thread is inside Zenoh."""

    is_inside = False


_here = _Here()


@contextmanager
def inside_zenoh() -> Iterator[None]:
    """Around every call of Zenoh and every release of its objects; Closed when it is too late.

    A thread that is inside may enter again.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main or _here.is_inside:
        _exit.start()
        yield
        return
    guard = _exit
    guard.enter()
    _here.is_inside = True
    try:
        yield
    finally:
        _here.is_inside = False
        guard.leave()
