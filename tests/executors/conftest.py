"""One Ray cluster for all tests of a session, started when the first test asks for it."""

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lefleet.records.executor import ExecutorPlan


class RunningCluster:
    """A cluster of one node that dies with the process of the tests, however that ends."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        argv = [sys.executable, "-m", "lefleet", "cluster", "up", "--block", "--json"]
        self._process = subprocess.Popen(
            [*argv, "--cpus=2", f"--workdir={workdir}"],
            stdout=subprocess.PIPE,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - nothing else runs here
        )
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if line == b"}\n":
                break
        assert lines, f"see {workdir}/.cluster/node0.log"
        said = json.loads(b"".join(lines))
        self.plan = ExecutorPlan(
            type="ray", address=said["address"], token_file=said["token_file"], workers=2
        )

    def end(self) -> None:
        argv = [sys.executable, "-m", "lefleet", "cluster", "down", f"--workdir={self.workdir}"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        self._process.wait()
        self._process.stdout.close()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    running = RunningCluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.end()
