"""A cluster of a few nodes on this machine, for tests and laptops: up, down, and how it is.

Every process of it carries a mark in its environment, so `down` ends these and no others. Nodes
listen on loopback, ask for a token, and send no usage statistics.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lefleet.cluster.jobs import Jobs
from lefleet.constitution import Grants, find, installed, rules_for_grants
from lefleet.durable import write_durably
from lefleet.errors import BadInput, ClusterUnreachable, StageFailed
from lefleet.process import launch, processes_marked
from lefleet.process.liveness import has_ended, identity_of, with_descendants
from lefleet.records import decode, encode
from lefleet.records.border import Strict

FOLDER = ".cluster"
"""In a work folder."""
MARK = "LEFLEET_CLUSTER"
"""Environment variable of all processes of a cluster: its folder."""
_STATE = "cluster.json"
_HOST = "127.0.0.2"
"""Ray replaces 127.0.0.1 with the machine's public address, without a word."""
_OBJECT_STORE = 100_000_000
"""Bytes for each node: only lines of JSON go through Ray."""
_PATIENCE_S = 180.0
_STARTS = 3
"""Ray gives up a node that is not there after 30 s, which happens on a busy machine."""
_GRACE_S = 5.0
_PORTS = (
    *("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port"),
    *("metrics-export-port", "node-manager-port", "object-manager-port"),
)


class LocalCluster(Strict, frozen=True, kw_only=True):
    """A cluster that was started on this machine."""

    address: str
    """Of its dashboard, for `executor.address`."""
    token_file: str
    gcs: str
    """Host and port that nodes join at."""
    temp: str
    """Ray's own files."""
    nodes: int
    cpus: int
    """Of each node."""


class NodeStarter:
    """Starts the nodes of one cluster; without `detached` they die with this process."""

    def __init__(self, cluster: LocalCluster, folder: Path, *, detached: bool) -> None:
        self._cluster = cluster
        self._folder = folder
        self._detached = detached

    def head(self) -> "subprocess.Popen[bytes]":
        """Start the head. After it was lost, another one in its place knows no jobs of before."""
        host, port = self._cluster.gcs.split(":")
        dashboard = self._cluster.address.rpartition(":")[2]
        return self._start(
            "node0.log",
            *("--head", f"--port={port}", f"--node-ip-address={host}"),
            *("--include-dashboard=true", f"--dashboard-host={host}"),
            f"--dashboard-port={dashboard}",
        )

    def node(self, number: int) -> "subprocess.Popen[bytes]":
        """Start another node, by its number from 1."""
        return self._start(
            f"node{number}.log",
            f"--address={self._cluster.gcs}",
            f"--node-ip-address={_HOST}",
        )

    def _start(self, log: str, *flags: str) -> "subprocess.Popen[bytes]":
        argv = (
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
            *flags,
            f"--temp-dir={self._cluster.temp}",
            f"--num-cpus={self._cluster.cpus}",
            f"--object-store-memory={_OBJECT_STORE}",
            *(f"--{name}={port}" for name, port in zip(_PORTS, free_ports(_HOST), strict=False)),
            *("--min-worker-port=0", "--max-worker-port=0"),
            *("--disable-usage-stats", "--include-log-monitor=false", "--log-style=record"),
        )
        rules = rules_for_grants(find(self._folder.parent), Grants(commands=(argv,)))
        with installed(rules), (self._folder / log).open("ab") as output:
            return launch(
                argv, stdout=output, stderr=output, detached=self._detached, may_fork=False
            )


def up(
    workdir: Path,
    nodes: int,
    cpus: int,
    *,
    detached: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> LocalCluster:
    """Start a cluster, or return the one that runs; BadInput where that has other nodes. Sets
    variables of this process, which its nodes inherit."""
    folder = workdir / FOLDER
    if (running := read_cluster(workdir)) is not None:
        if processes_of(folder):
            if (running.nodes, running.cpus) != (nodes, cpus):
                raise BadInput(
                    f"nodes: a cluster with --nodes {running.nodes} --cpus {running.cpus} runs "
                    "already.",
                    f"End it first: lefleet cluster down --workdir {workdir}",
                )
            return running
        _forget(folder, running)
    require_ray()
    folder.mkdir(parents=True, exist_ok=True)
    tries = 1
    while True:
        try:
            return _started(folder, nodes, cpus, detached=detached, tell=tell)
        except BaseException as error:
            down(workdir)
            if not isinstance(error, StageFailed) or tries == _STARTS:
                raise
        tries += 1
        tell("starting again")


def _started(
    folder: Path, nodes: int, cpus: int, *, detached: bool, tell: Callable[[str], None]
) -> LocalCluster:
    token = folder / "token"
    write_durably(token, secrets.token_hex(32).encode(), 0o600)
    gcs, dashboard, *_ = free_ports(_HOST)
    cluster = LocalCluster(
        address=f"http://{_HOST}:{dashboard}",
        token_file=str(token),
        gcs=f"{_HOST}:{gcs}",
        temp=tempfile.mkdtemp(prefix="lefleet-ray-"),
        nodes=nodes,
        cpus=cpus,
    )
    (folder / _STATE).write_bytes(encode(cluster))
    set_variables(folder, cluster)
    starter = NodeStarter(cluster, folder, detached=detached)
    started = [starter.head()]
    tell("waiting for the head")
    wait_until_ready(cluster, 1, lambda: _has_exited(started))
    started += [starter.node(number) for number in range(1, nodes)]
    tell("waiting for all nodes")
    wait_until_ready(cluster, nodes, lambda: _has_exited(started))
    return cluster


def set_variables(folder: Path, cluster: LocalCluster) -> None:
    """What nodes are started with: the mark, the token, and Ray's settings that suit stages."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]
    os.environ.update(
        {
            MARK: str(folder),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": cluster.token_file,
            "RAY_USAGE_STATS_ENABLED": "0",
            # A stage waits for its turn as long as it takes; by default it fails after 900 s.
            "RAY_JOB_START_TIMEOUT_SECONDS": str(7 * 24 * 3600),
            "RAY_enable_worker_prestart": "0",
            "RAY_prestart_worker_first_driver": "0",
        }
    )


def down(workdir: Path) -> int:
    """End the cluster of a work folder; how many processes there were."""
    folder = workdir / FOLDER
    known: dict[int, str] = {}
    deadline = time.monotonic() + _GRACE_S
    how = signal.SIGTERM
    while True:
        # Kept, because what has lost its parent is found no more.
        family = with_descendants(processes_of(folder))
        known = {pid: identity_of(pid) for pid in family} | known
        left = [pid for pid, process in known.items() if not has_ended(process)]
        if not left:
            break
        if time.monotonic() > deadline:
            if how == signal.SIGKILL:
                raise StageFailed(f"Process {left[0]} of the cluster does not end.", "Kill it.")
            how, deadline = signal.SIGKILL, time.monotonic() + _GRACE_S
        for pid in left:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                continue
        time.sleep(0.3)
    if (was := read_cluster(workdir)) is not None:
        _forget(folder, was)
    return len(known)


def read_cluster(workdir: Path) -> LocalCluster | None:
    """The cluster that was started for a work folder, alive or not."""
    file = workdir / FOLDER / _STATE
    return decode(file.read_bytes(), LocalCluster, str(file)) if file.exists() else None


def processes_of(folder: Path) -> list[int]:
    """Living processes of the cluster whose folder this is; not this one."""
    marked = processes_marked(MARK)
    return [pid for pid, name in marked.items() if name == str(folder) and pid != os.getpid()]


def wait_until_ready(cluster: LocalCluster, nodes: int, has_failed: Callable[[], bool]) -> None:
    """Until its head takes jobs and knows so many nodes."""
    jobs = Jobs(cluster.address, cluster.token_file)
    deadline = time.monotonic() + _PATIENCE_S
    while (lacking := _lacking(jobs, nodes)) is not None:
        if has_failed() or time.monotonic() > deadline:
            where = Path(cluster.token_file).parent
            raise StageFailed(f"The cluster did not start: {lacking}", f"Its logs are in {where}.")
        time.sleep(0.3)


def _lacking(jobs: Jobs, nodes: int) -> str | None:
    try:
        jobs.find("none")
        found = jobs.nodes()
    except ClusterUnreachable as error:
        return error.problem
    return None if found >= nodes else f"{found} of {nodes} nodes are up."


def require_ray(field: str = "cluster") -> None:
    """BadInput where the package is missing."""
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise BadInput(
            f"{field}: the package ray is not installed.", "Run: pip install 'lefleet[ray]'"
        )


def _has_exited(started: "list[subprocess.Popen[bytes]]") -> bool:
    return any(node.poll() is not None for node in started)


def _forget(folder: Path, cluster: LocalCluster) -> None:
    shutil.rmtree(cluster.temp, ignore_errors=True)
    for name in (_STATE, "token"):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def _reserved(host: str) -> Iterator[socket.socket]:
    with socket.socket() as taken:
        taken.bind((host, 0))
        yield taken


def free_ports(host: str) -> list[int]:
    """A few different ports that nothing listens on now."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        taken = [stack.enter_context(_reserved(host)) for _ in range(len(_PORTS))]
        return [one.getsockname()[1] for one in taken]
