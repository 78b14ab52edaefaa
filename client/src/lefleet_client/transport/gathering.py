"""Collects the answers to one question, for a bounded time."""

import threading

from lefleet_client.transport.seam import Answers, Reply


class Gathering:
    """Filled by the threads that answer, read by the one who asks; one condition guards all.

    It ends when each of its parts has ended.
    """

    def __init__(self, parts: int) -> None:
        self._changed = threading.Condition()
        self._open_parts = parts
        self._replies: list[Reply] = []
        self._failures = 0
        self._is_cut_off = False

    def add(self, reply: Reply) -> None:
        with self._changed:
            self._replies.append(reply)

    def add_failure(self) -> None:
        with self._changed:
            self._failures += 1

    def cut_off(self) -> None:
        """An answer that was to come will not come."""
        with self._changed:
            self._is_cut_off = True

    def end_part(self) -> None:
        with self._changed:
            self._open_parts -= 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> Answers:
        with self._changed:
            has_ended = self._changed.wait_for(lambda: self._open_parts <= 0, timeout_s)
            is_complete = has_ended and not self._is_cut_off
            return Answers(tuple(self._replies), self._failures, is_complete)
