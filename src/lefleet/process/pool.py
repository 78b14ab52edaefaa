"""A few worker processes, each fed one piece of work at a time."""

import contextlib
import selectors
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Self, cast

from lefleet.errors import ChildKilled, StageFailed
from lefleet.process.launch import exit_words, launch, oom_kills, stop

DONE = b"."
"""The line that ends the answers to one piece of work."""


class Pool:
    """Sends lines of work to workers and yields their lines of answers.

    A worker reads one line from stdin, writes any number of answer lines and then a line with a
    single full stop. Everything happens in the caller's thread; the pool starts none. Workers
    start at the first piece of work, end with the pool, and are killed with the parent.
    """

    def __init__(self, argv: Sequence[str], size: int, log: Path) -> None:
        self._argv = argv
        self._size = size
        self._log_path = log
        self._log = log.open("ab")
        self._log_start = self._log.tell()
        self._oom_kills = oom_kills()
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            stop(worker)
            _stdout(worker).close()
            # What could not be written to a dead worker is flushed at close and fails again.
            with contextlib.suppress(BrokenPipeError):
                _stdin(worker).close()
        self._log.close()

    def run(self, work: Iterable[bytes]) -> Iterator[bytes]:
        """Answers to all of `work` in the order in which they arrive."""
        pending = iter(work)
        with selectors.DefaultSelector() as selector:
            buffers: dict[int, bytes] = {}
            idle = list(self._workers)
            busy = 0

            def feed(worker: "subprocess.Popen[bytes]", line: bytes) -> None:
                nonlocal busy
                try:
                    _stdin(worker).write(line + b"\n")
                    _stdin(worker).flush()
                except BrokenPipeError as error:
                    raise self._failure(worker) from error
                if _stdout(worker).fileno() not in buffers:
                    buffers[_stdout(worker).fileno()] = b""
                    selector.register(_stdout(worker), selectors.EVENT_READ, worker)
                busy += 1

            for line in pending:
                if not idle and len(self._workers) < self._size:
                    idle.append(self._start())
                feed(idle.pop(0), line)
                if not idle and len(self._workers) == self._size:
                    break
            while busy:
                for key, _ in selector.select():
                    worker: subprocess.Popen[bytes] = key.data
                    data = _stdout(worker).read1()
                    if not data:
                        raise self._failure(worker)
                    *lines, buffers[key.fd] = (buffers[key.fd] + data).split(b"\n")
                    for answer in lines:
                        if answer != DONE:
                            yield answer
                            continue
                        busy -= 1
                        following = next(pending, None)
                        if following is not None:
                            feed(worker, following)

    def _start(self) -> "subprocess.Popen[bytes]":
        worker = launch(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self._workers.append(worker)
        return worker

    def _failure(self, worker: "subprocess.Popen[bytes]") -> StageFailed:
        code = worker.wait()
        words, where = exit_words(code, self._oom_kills), f"Its log is {self._log_path}."
        if code < 0:
            return ChildKilled(f"A worker {words}.", where)
        return StageFailed(
            f"A worker {words}: {last_words(self._log_path, self._log_start)}.", where
        )


def last_words(log: Path, start: int) -> str:
    """The last line of a log; what stands before `start` is of earlier attempts."""
    said = log.read_bytes()[start:].decode(errors="replace")
    return (said.strip().splitlines() or ["it printed nothing"])[-1]


def _stdin(worker: "subprocess.Popen[bytes]") -> BufferedWriter:
    return cast(BufferedWriter, worker.stdin)


def _stdout(worker: "subprocess.Popen[bytes]") -> BufferedReader:
    return cast(BufferedReader, worker.stdout)
