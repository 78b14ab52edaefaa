"""How commands react to SIGINT, SIGTERM and SIGHUP, whatever they inherit.

A shell starts background jobs of a script with SIGINT ignored, and `nohup` does so with SIGHUP.
"""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even where this process inherited that it is ignored. For
    commands that only Ctrl-C ends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class StoppedEarly(BaseException):
    """A signal asked to stop before there was anything to finish."""


class StopSignals:
    """The first signal asks to stop, the second one exits at once. For the main thread, which also
    runs the handler.

    Until `hold` is called there is nothing to finish, and a signal raises `StoppedEarly`. From then
    on the first signal only makes `wait` return.

    A signal may arrive at the very moment when `wait` begins to block, or in another thread, and
    Python then runs the handler only when this thread wakes up. So the signal itself writes to a
    pipe, which `wait` reads.

    SIGHUP never exits at once: a closing terminal and the shell in it each send one. Where it is
    ignored, as under nohup, it stays ignored.
    """

    def __init__(self) -> None:
        self._is_stopping = False
        self._is_held = False
        self._before: dict[signal.Signals, Any] = {}
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._woken_before = -1

    def hold(self) -> None:
        """From here on there is something to finish."""
        self._is_held = True

    def stop(self) -> None:
        """Stop as if a signal had come; any thread may call, also after the end."""
        self._is_stopping = True
        with suppress(OSError):
            os.write(self._write, b"\0")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until a signal asks to stop, or for this long; whether one did."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_stopping:
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            if select.select([self._read], [], [], left_s)[0]:
                os.read(self._read, 1)
        return True

    def __enter__(self) -> Self:
        self._woken_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken_before)
        os.close(self._read)
        write, self._write = self._write, -1
        os.close(write)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._is_stopping:
            if number == signal.SIGHUP:
                return
            os._exit(128 + number)
        self._is_stopping = True
        if not self._is_held:
            raise StoppedEarly
