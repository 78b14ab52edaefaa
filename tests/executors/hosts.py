"""Two hosts with networks of their own on this machine, and Ray on them as docs/clusters.md says.

The hosts are network namespaces on one bridge; they share all files. Making them needs root.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lefleet.cluster.jobs import Jobs
from lefleet.errors import ClusterUnreachable
from lefleet.records.executor import ExecutorPlan, StageResources
from tests.loop.fuzz import Seen, _look
from tests.loop.test_end_to_end import wait_for

_BRIDGE = "lefleet-net"
_HERE, _HEAD, _OTHER = "10.77.0.1", "10.77.0.5", "10.77.0.6"
_BUSY = "keeps-the-head-busy"


class TwoHosts:
    """The head and another host, with one CPU each. That of the head is taken at first, so that
    work begins on the other one. `cut` takes the other one's network away for good, and frees the
    head."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self._token = workdir / "token"
        self._token.write_text(secrets.token_hex(32))
        self._jobs = Jobs(f"http://{_HEAD}:8265", str(self._token))
        # Not below the work folder: paths of sockets are short.
        self._temp = tempfile.mkdtemp(prefix="lefleet-ray-")
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_HERE}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        here = ("--head", f"--node-ip-address={_HEAD}", f"--dashboard-host={_HEAD}")
        self._start_ray(_HEAD, *here)
        wait_for(lambda: self._nodes() == 1, "the head", 180)
        self._jobs.submit(_BUSY, ("sleep", "3600"), StageResources(cpus=1.0), 5.0)
        wait_for(lambda: not self._jobs.find(_BUSY).is_pending, "the busy head", 60)
        self._start_ray(_OTHER, f"--address={_HEAD}:6379")
        wait_for(lambda: self._nodes() == 2, "the other host", 180)

    def plan(self) -> ExecutorPlan:
        return ExecutorPlan(type="ray", address=self._jobs.address, token_file=str(self._token))

    def program(self) -> Seen | None:
        """The one that Ray on the other host was started with."""
        return _look(self._programs[_OTHER].pid)

    def cut(self) -> None:
        _ip("link", "set", _outside(_OTHER), "down")
        self._jobs.stop(_BUSY)

    def end(self) -> None:
        for program in self._programs.values():
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        for address in (_HEAD, _OTHER):
            for pid in subprocess.run(
                ["ip", "netns", "pids", address], capture_output=True, text=True, check=False
            ).stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            _ip("netns", "del", address, must=False)
        _ip("link", "del", _BRIDGE, must=False)
        shutil.rmtree(self._temp, ignore_errors=True)

    def _nodes(self) -> int:
        try:
            return self._jobs.nodes()
        except ClusterUnreachable:
            return 0

    def _start_ray(self, address: str, *flags: str) -> None:
        outside = _outside(address)
        _ip("netns", "add", address)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", address)
        _ip("link", "set", outside, "master", _BRIDGE, "up")
        for inside in (
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", address, *inside)
        argv = ["ip", "netns", "exec", address, sys.executable, "-m", "ray.scripts.scripts"]
        argv += ["start", "--block", *flags, f"--temp-dir={self._temp}", "--num-cpus=1"]
        variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self._token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_JOB_START_TIMEOUT_SECONDS": "604800",
        }
        with (self.workdir / f"{address}.log").open("wb") as log:
            self._programs[address] = subprocess.Popen(
                [*argv, "--object-store-memory=100000000"],
                env=os.environ | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _outside(address: str) -> str:
    """The end of its cable that is not in the host."""
    return f"lefleet-{address.rpartition('.')[2]}"


def _ip(*arguments: str, must: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=must)
