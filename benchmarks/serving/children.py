"""Server and robot processes: started, told what to do, measured, and ended."""

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import PIPE
from typing import Any

from benchmarks.serving.links import End
from benchmarks.serving.stacks import STACKS
from benchmarks.workshop import ANY_PROGRAM, REPOSITORY, python
from lefleet.constitution import installed
from lefleet.process import launch, stop

# LeRobot takes a while to load on a busy machine.
_START_S = 90.0
_PATH = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))


class Child:
    """A process that writes lines; what it says on stderr is kept in a file."""

    def __init__(self, argv: Sequence[str], end: End, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors, installed(ANY_PROGRAM):
            self._process = launch(
                (*end.prefix, *argv),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                # LeRobot writes its logs into the folder where it is started.
                cwd=log.parent,
                environment={"PYTHONPATH": _PATH, "HF_HUB_OFFLINE": "1"},
            )
        self._rest = b""

    def line(self, timeout_s: float) -> str:
        """The next line; RuntimeError when the process ends or says nothing in time."""
        deadline = time.monotonic() + timeout_s
        stdout: Any = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise RuntimeError(f"nothing was said in {timeout_s:.0f} s: {self._tail()}")
                if not (data := os.read(stdout.fileno(), 1 << 20)):
                    raise RuntimeError(f"a process ended too early: {self._tail()}")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def tell(self, line: str) -> None:
        stdin: Any = self._process.stdin
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        """Processor seconds of all its threads so far."""
        # The clock of another process, as clock_getcpuclockid(3) makes its number.
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.close()

    def close(self) -> None:
        stop(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _tail(self) -> str:
        return self._log.read_text()[-2000:]


class Server(Child):
    """A server process of one stack."""

    def __init__(
        self, stack: str, end: End, folder: Path, *, port: int = 0, policy_ms: float = 0.0
    ) -> None:
        self.port = port or free_port()
        self.address = f"{end.host}:{self.port}"
        module = f"benchmarks.serving.{STACKS[stack].server}"
        argv = python("-m", module, "--address", self.address, "--policy-ms", str(policy_ms))
        super().__init__(argv, end, folder / f"{stack}-server.log")

    def wait_ready(self) -> float:
        """The instant from which clients could come."""
        while not (line := self.line(_START_S)).startswith("ready "):
            pass
        return float(line.split()[1])


class Robots(Child):
    """A process with some clients of one stack."""

    def __init__(self, stack: str, address: str, end: End, folder: Path, clients: int = 1) -> None:
        argv = python("-m", "benchmarks.serving.edge", stack, address, str(clients), end.device)
        super().__init__(argv, end, folder / f"{stack}-robots.log")

    def wait_ready(self) -> str:
        """The image codec that they chose, if they choose one."""
        codec: str = self.answer(_START_S)["codec"]
        return codec

    def order(self, do: str, **values: float | str) -> None:
        self.tell(json.dumps({"do": do, **values}))

    def answer(self, timeout_s: float) -> Any:
        """Their next answer; other lines are chatter of libraries."""
        while not (line := self.line(timeout_s)).startswith("{"):
            pass
        return json.loads(line)


def started_servers(
    stacks: Sequence[str], end: End, folder: Path, cleanup: ExitStack, *, policy_ms: float = 0.0
) -> dict[str, Server]:
    """A server of each stack, ready; they load side by side."""
    servers = {
        stack: cleanup.enter_context(closing(Server(stack, end, folder, policy_ms=policy_ms)))
        for stack in stacks
    }
    for server in servers.values():
        server.wait_ready()
    return servers


def free_port() -> int:
    """A port that nobody uses here; in a namespace of its own nobody uses any."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
