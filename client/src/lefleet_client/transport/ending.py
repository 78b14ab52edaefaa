"""Closes what a program forgot: at its end, or when nobody holds it any more.

Zenoh calls subscribers from threads that Python waits for before anything registered with `atexit`
runs: a program that forgot to close one would never end.
"""

import os
import queue
import threading
from collections.abc import Callable

from lefleet_client.transport.callbacks import attempt

Close = Callable[[], None]


class Ending:
    """Calls back when the main thread has ended, the last entry first.

    A program whose main thread returns is over, also if other threads of it still run. Two threads
    are started with the first entry. `ending` waits for the main thread; it is no daemon, because
    Python may not end in the middle of its work. `forgotten` closes what was collected as garbage:
    that happens anywhere, also where locks are held, and so only a queue is filled there. One lock
    guards the entries; a signal handler may close while its thread holds it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[int, tuple[object, Close]] = {}
        self._forgotten: queue.SimpleQueue[Close] = queue.SimpleQueue()
        self._pid = 0

    def add(self, owner: object, close: Close) -> None:
        with self._lock:
            self._entries[id(owner)] = (owner, close)
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="ending").start()
                threading.Thread(target=self._sweep, name="forgotten", daemon=True).start()

    def remove(self, owner: object) -> None:
        with self._lock:
            self._entries.pop(id(owner), None)

    def soon(self, close: Close) -> None:
        """Close on another thread; may be called from anywhere, also by a finalizer."""
        self._forgotten.put(close)

    def _run(self) -> None:
        threading.main_thread().join()
        with self._lock:
            entries = list(self._entries.values())
        for _, close in reversed(entries):
            attempt("close at the end", close)

    def _sweep(self) -> None:
        while True:
            attempt("close what was forgotten", self._forgotten.get())


ENDING = Ending()
