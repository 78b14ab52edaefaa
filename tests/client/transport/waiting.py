"""Waiting without sleeping: for a condition, or for a call to end, never for ever."""

import threading
import time
from collections.abc import Callable

LONG_S = 20.0
"""Far longer than anything takes; only a failure waits as long."""
SHORT_S = 0.2
"""For what never comes."""


class Log(list):
    """What callbacks were given, in order; `wait` until enough has come."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def add(self, *values: object) -> None:
        with self._changed:
            self.append(values[0] if len(values) == 1 else values)
            self._changed.notify_all()

    def wait(self, condition: Callable[[list], object]) -> list:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), LONG_S), f"only {list(self)}"
            return list(self)

    def wait_for(self, item: object) -> list:
        return self.wait(lambda items: item in items)


def bounded(call: Callable[[], object]):
    """The result of a call that must end."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(LONG_S)
    assert not thread.is_alive(), "the call hangs"
    return results[0]


def until(step: Callable[[], object], done: threading.Event) -> None:
    """Repeat a step, a little apart, until it has had its effect."""
    for _ in range(int(LONG_S / 0.05)):
        step()
        if done.wait(0.05):
            return
    raise AssertionError("no effect")


def eventually(is_true: Callable[[], object], timeout_s: float = LONG_S) -> None:
    """Return as soon as it is true; fail when it never is."""
    deadline_s = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.005)
