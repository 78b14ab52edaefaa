"""Closes what is still open when a program ends.

Zenoh calls subscribers from threads that Python waits for before anything registered with `atexit`
runs: a program that forgot to close one would never end.
"""

import threading
from collections.abc import Callable

from lefleet_client.transport.callbacks import attempt


class Ending:
    """Calls back when the main thread has ended.

    A program whose main thread returns is over, also if other threads of it still run. The thread
    of this class is started with the first entry, and does nothing but wait; it is no daemon,
    because Python may not end in the middle of its work. One lock guards the entries.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, Callable[[], None]] = {}
        self._threads: list[threading.Thread] = []

    def add(self, owner: object, close: Callable[[], None]) -> None:
        with self._lock:
            self._entries[id(owner)] = close
            if not self._threads:
                thread = threading.Thread(target=self._run, name="ending")
                self._threads.append(thread)
                thread.start()

    def remove(self, owner: object) -> None:
        with self._lock:
            self._entries.pop(id(owner), None)

    def _run(self) -> None:
        threading.main_thread().join()
        with self._lock:
            entries = list(self._entries.values())
        for close in entries:
            attempt("close at the end", close)


ENDING = Ending()
