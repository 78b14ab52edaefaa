"""SIGINT and SIGTERM: the first one asks to stop, the second one does not ask."""

import os
import signal
import threading
from types import FrameType


class StoppedEarly(BaseException):
    """Asked to stop before there was anything to finish."""


class StopSignals:
    """Takes both signals over; for the main thread, which also runs the handler.

    Until `wait` is called there is nothing to finish, and a signal ends what is under way with
    `StoppedEarly`.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._is_waited_for = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def wait(self) -> None:
        """Until somebody asks to stop."""
        self._is_waited_for = True
        self._asked.wait()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._asked.is_set():
            os._exit(128 + number)
        self._asked.set()
        if not self._is_waited_for:
            raise StoppedEarly
