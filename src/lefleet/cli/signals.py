"""SIGINT, SIGTERM and SIGHUP: the first one asks to stop, the second one does not ask."""

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedEarly(BaseException):
    """Asked to stop before there was anything to finish."""


class StopSignals:
    """Takes the signals over; for the main thread, which also runs the handler.

    Until `hold` is called there is nothing to finish, and a signal ends what is under way with
    `StoppedEarly`. From then on the first one is only noted, and `wait` returns.

    SIGHUP only ever asks: a terminal that closes sends it, and so does the shell in it. Where it is
    ignored, as under nohup, it stays so.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._is_held = False
        self._before: dict[signal.Signals, Any] = {}

    def hold(self) -> None:
        """From here on there is something to finish."""
        self._is_held = True

    def wait(self) -> None:
        """Until somebody asks to stop."""
        self._asked.wait()

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._asked.is_set():
            if number == signal.SIGHUP:
                return
            os._exit(128 + number)
        self._asked.set()
        if not self._is_held:
            raise StoppedEarly
