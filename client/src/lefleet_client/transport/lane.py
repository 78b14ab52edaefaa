"""The thread behind each declaration in memory: one call at a time, as on a real network."""

import queue
import threading
from collections.abc import Callable

from lefleet_client.transport.callbacks import attempt

_JOIN_S = 2.0


class Lane:
    """Runs jobs in order on a thread of its own, until closed.

    Any thread may push. Jobs that are still waiting when it closes are cancelled, each by its own
    `cancel`, so that whoever waits for them is told.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Callable[[], None]]] = (
            queue.SimpleQueue()
        )
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lane {name}", daemon=True)
        self._thread.start()

    def push(self, job: Callable[[], None], cancel: Callable[[], None] = lambda: None) -> None:
        self._jobs.put((job, cancel))

    def close(self) -> None:
        """Stop; waits for the job under way, unless it is the one that closes."""
        self._is_closed.set()
        self.push(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            job, cancel = self._jobs.get()
            if self._is_closed.is_set():
                cancel()
                break
            attempt(self._thread.name, job)
        while not self._jobs.empty():
            self._jobs.get()[1]()
