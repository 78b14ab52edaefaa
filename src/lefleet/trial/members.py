"""Child processes that are told lines on stdin and answer in lines on stdout; both ends of it."""

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from typing import IO, Any, cast

import msgspec

from lefleet.process import launch, stop

Say = Callable[[Any], None]
"""Writes a message as a line; any thread may call it."""


class Member:
    """A child process by its name. All calls are for one thread."""

    def __init__(self, name: str, module: str, log: IO[bytes]) -> None:
        self.name = name
        self.process = launch(
            (sys.executable, "-m", module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        self.is_silent = False
        """Whether it has closed its stdout, which is its end."""
        self._stdin = cast(BufferedWriter, self.process.stdin)
        self._stdout = cast(BufferedReader, self.process.stdout)
        self._begun = b""

    def tell(self, message: Any) -> None:
        """Write a line; one to a process that has exited is lost, and reading shows its end."""
        with suppress(BrokenPipeError):
            self._stdin.write(msgspec.json.encode(message) + b"\n")
            self._stdin.flush()

    def tell_no_more(self) -> None:
        """There is no more work: a program that waits for a line ends."""
        with suppress(BrokenPipeError):
            self._stdin.close()

    def fileno(self) -> int:
        return self._stdout.fileno()

    def read(self) -> list[bytes]:
        """The complete lines of what can be read now; blocks only where nothing can."""
        data = self._stdout.read1()
        self.is_silent = not data
        *lines, self._begun = (self._begun + data).split(b"\n")
        return lines

    def stop(self, grace_s: float) -> None:
        """Ask it to end; after `grace_s` it is killed."""
        self.tell_no_more()
        stop(self.process, grace_s)
        self._stdout.close()


def listen(members: Sequence[Member], timeout_s: float) -> Iterator[tuple[Member, bytes]]:
    """What members say within this time, at the first moment when any of them says something."""
    speaking = [one for one in members if not one.is_silent]
    readable, _, _ = select.select(speaking, [], [], timeout_s)
    for member in readable:
        for line in member.read():
            yield member, line


def stop_all(members: Sequence[Member], grace_s: float = 5.0) -> None:
    """Ask all to end, then wait for each."""
    for member in members:
        member.process.terminate()
    for member in members:
        member.stop(grace_s)


def take_stdout() -> Say:
    """In a child: the function that writes to its stdout, which nothing else writes to from now on.

    Libraries print; what they print goes to stderr.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(message: Any) -> None:
        with lock:
            answers.write(msgspec.json.encode(message) + b"\n")
            answers.flush()

    return say
