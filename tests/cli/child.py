"""lefleet in a process of its own, for commands that end by a signal."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client.transport.waiting import LONG_S

ROOT = Path(__file__).parents[2]
SLOW_S = 120.0
"""To import torch and LeRobot on a busy machine."""


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that no other socket gets meanwhile, and that a child can still listen on.

    Two sockets that both allow its reuse may have one port as long as only one of them listens, and
    what servers listen with allows it.
    """
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


class Child:
    """A running command; what it prints is collected on two threads, and can be waited for.

    It starts with SIGINT ignored, as a script's shell starts background jobs: a command must not
    depend on what it inherits.
    """

    def __init__(self, *arguments: str, folder: Path) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
        in_background = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
        self._process = subprocess.Popen(
            [*in_background, sys.executable, "-m", "lefleet", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._changed = threading.Condition()
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self._process.stdout, self.out), (self._process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, condition: Callable[["Child"], object], timeout_s: float = SLOW_S) -> None:
        with self._changed:
            is_so = self._changed.wait_for(lambda: condition(self) or self._has_ended, timeout_s)
        assert is_so and condition(self), (self.out, self.err)  # noqa: PT018

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Its exit code; it must end by itself."""
        code = self._process.wait(LONG_S)
        for reader in self._readers:
            reader.join(LONG_S)
        return code

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(LONG_S)
        self._process.stdout.close()
        self._process.stderr.close()

    @property
    def _has_ended(self) -> bool:
        return not any(reader.is_alive() for reader in self._readers)

    def _read(self, stream, lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
