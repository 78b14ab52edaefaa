"""SIGINT, SIGTERM and SIGHUP: the first one asks to stop, the second one does not ask."""

import os
import signal
from types import FrameType
from typing import Any, Self

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedEarly(BaseException):
    """Asked to stop before there was anything to finish."""


class StopSignals:
    """Takes the signals over; for the main thread, which also runs the handler.

    Until `hold` is called there is nothing to finish, and a signal ends what is under way with
    `StoppedEarly`. From then on the first one is only noted, and `wait` returns.

    A signal may come at the very moment when `wait` begins to block, or to another thread, and
    Python then tells this thread only when it wakes. So the signal itself writes to a pipe, which
    `wait` reads.

    SIGHUP only ever asks: a terminal that closes sends it, and so does the shell in it. Where it is
    ignored, as under nohup, it stays so.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._is_held = False
        self._before: dict[signal.Signals, Any] = {}
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._woken_before = -1

    def hold(self) -> None:
        """From here on there is something to finish."""
        self._is_held = True

    def wait(self) -> None:
        """Until somebody asks to stop."""
        while not self._is_asked:
            os.read(self._read, 1)

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
        os.close(self._write)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._is_asked:
            if number == signal.SIGHUP:
                return
            os._exit(128 + number)
        self._is_asked = True
        if not self._is_held:
            raise StoppedEarly
