"""A policy server as a child process: started, awaited, drained."""

import socket
import sys
import time
from pathlib import Path
from typing import Self

import msgspec

from lefleet.errors import StageFailed
from lefleet.process import launch, oom_kills, stop
from lefleet.stages.child_output import failure_of, split_lines
from lefleet.stages.folder import LOG

SERVICE = "testbed"
OPEN_TIMEOUT_S = 10.0
"""For connections: opening one takes several round trips."""
_READY_S = 300.0
_POLL_S = 0.05


class ServedCheckpoint(msgspec.Struct, frozen=True):
    """What is read of a server's first line."""

    digest: str
    chunk_size: int
    n_action_steps: int
    supports_rtc: bool
    serving_mode: str


class PolicyServer:
    """`lefleet serve` for one checkpoint on a port of its own; ends with the `with` block.

    with PolicyServer(folder, device="cpu", robots=2, folder=out) as server:
        server.wait_until_ready()
    """

    def __init__(self, checkpoint: str, *, device: str, robots: int, folder: Path) -> None:
        self._arguments = (
            checkpoint,
            "--json",
            f"--service_name={SERVICE}",
            f"--model.device={device}",
            f"--max_sessions={robots + 1}",
            f"--zenoh.open_timeout_s={OPEN_TIMEOUT_S:g}",
            "--audit=none",
        )
        self._said = folder / "server.json"
        self._log = folder / LOG

    def __enter__(self) -> Self:
        self.port = _free_port()
        listen = f"--zenoh.listen=[tcp/127.0.0.1:{self.port}]"
        argv = (sys.executable, "-m", "lefleet", "serve", *self._arguments, listen)
        self._oom_kills = oom_kills()
        self._said.unlink(missing_ok=True)
        with self._said.open("wb") as said, self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = launch(argv, stdout=said, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    def wait_until_ready(self) -> ServedCheckpoint:
        """What is served, once robots can connect."""
        until_s = time.monotonic() + _READY_S
        while time.monotonic() < until_s:
            line, newline, _ = self._said.read_bytes().partition(b"\n")
            if newline:
                return msgspec.json.decode(line, type=ServedCheckpoint)
            self.require_running()
            time.sleep(_POLL_S)
        raise StageFailed(
            f"The policy server was not ready after {_READY_S:.0f} s.", f"Its log is {self._log}."
        )

    def require_running(self) -> None:
        """Raise why the server has exited, if it has."""
        code = self._process.poll()
        if code is None:
            return
        log = self._log.read_bytes()[self._log_start :].decode(errors="replace")
        where = f"Its log is {self._log}."
        raise failure_of(
            "The policy server", code, self._oom_kills, split_lines(log), where, count=1
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
