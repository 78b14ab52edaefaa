"""What is tried out on a cluster before a run begins, and the program that does it on every node.

A run must not fail hours later because one node has another file system, no GPU, or no LeFleet. So
a small job looks, on each node, for a file of the work folder, for the lock that the asking process
holds on it, and for the resources that stages are to reserve.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from lefleet.cluster.actors import connected
from lefleet.cluster.jobs import JobRefused, Jobs
from lefleet.cluster.nodes import require_ray
from lefleet.devices import CPU
from lefleet.durable import write_durably
from lefleet.errors import BadInput, ClusterUnreachable
from lefleet.executors.ray_jobs import resources_of
from lefleet.process import is_held, require_allowed
from lefleet.process.liveness import take_lock
from lefleet.records import decode, encode
from lefleet.records.border import Strict
from lefleet.records.executor import Claimant, ExecutorPlan, StageResources

_WITH_WORKERS: tuple[Claimant, ...] = ("collect", "evaluate", "gate", "improve")
_STAGES: tuple[Claimant, ...] = (*_WITH_WORKERS, "train", "propose", "worker")
_ON_DEVICE: tuple[Claimant, ...] = ("train", "worker")
_NONCE = "nonce"
_LOCK = "lock"
_REPORT = "report.json"
_PATIENCE_S = 180.0
_NODE_PATIENCE_S = 90.0
_SHARE = (
    "Let the same user see the same work folder and the same LeFleet under the same paths on all "
    "nodes, with locks that hold between machines."
)


class NodeReport(Strict, frozen=True, kw_only=True):
    """What the trial found on one node."""

    name: str
    resources: dict[str, float]
    problem: str = ""


class ClusterFindings(NamedTuple):
    """A cluster that a run can use."""

    found: str
    """For a person."""
    asks_for_token: bool


def examine_cluster(plan: ExecutorPlan, workdir: Path, device: str) -> ClusterFindings:
    """Try out the cluster; BadInput with the field and the remedy where a run would fail there."""
    require_ray("executor.type")
    _require_reserved(plan, device)
    require_reachable(plan)
    jobs = Jobs(plan.address, plan.token_file)
    with _refused():
        nodes = _probe(jobs, workdir)
    for node in nodes:
        if node.problem:
            raise BadInput(f"executor.address: node {node.name} {node.problem}.", _SHARE)
    for claimant in _STAGES:
        _require_room(claimant, resources_of(plan, claimant), nodes)
    for claimant in _WITH_WORKERS:
        _require_workers(claimant, plan, nodes)
    count = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    cpus = sum(node.resources.get("CPU", 0.0) for node in nodes)
    gpus = sum(node.resources.get("GPU", 0.0) for node in nodes)
    with _refused():
        found = f"{plan.address}: Ray {jobs.version()}, {count}, {cpus:g} CPUs, {gpus:g} GPUs"
        return ClusterFindings(found, jobs.asks_for_token())


def _require_reserved(plan: ExecutorPlan, device: str) -> None:
    """Ray hides the GPUs of a node from what has reserved none."""
    for claimant in _ON_DEVICE:
        if device != CPU and not resources_of(plan, claimant).gpus:
            raise BadInput(
                f"executor.resources.{claimant}: it works on {device} and reserves no GPU.",
                "Name how many: 1, or for workers that share one for instance 0.25.",
            )


def require_reachable(plan: ExecutorPlan) -> None:
    """BadInput where the cluster does not answer, or wants another token."""
    with _refused():
        Jobs(plan.address, plan.token_file).find("none")


@contextmanager
def _refused() -> Iterator[None]:
    """Before a run begins, a cluster that does not do as it is asked is a wrong config."""
    try:
        yield
    except (ClusterUnreachable, JobRefused) as error:
        raise BadInput(error.problem, error.remedy) from error


def _require_room(claimant: str, wanted: StageResources, nodes: Sequence[NodeReport]) -> None:
    """A node must have all that one stage reserves: it is one process."""
    amounts = {"CPU": wanted.cpus, "GPU": wanted.gpus, **wanted.custom}
    for node in nodes:
        if all(node.resources.get(name, 0.0) >= amount for name, amount in amounts.items()):
            return
    asked = ", ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount)
    raise BadInput(
        f"executor.resources.{claimant}: no node has {asked}.",
        "Ask for less, or start nodes that have it.",
    )


def _require_workers(claimant: Claimant, plan: ExecutorPlan, nodes: Sequence[NodeReport]) -> None:
    """Beside a stage there must be room for one of its workers, or it waits for ever."""
    stage, worker = resources_of(plan, claimant), resources_of(plan, "worker")
    for name in ("CPU", "GPU"):
        there = sum(node.resources.get(name, 0.0) for node in nodes)
        pair = (stage.cpus, worker.cpus) if name == "CPU" else (stage.gpus, worker.gpus)
        if all(pair) and sum(pair) > there:
            raise BadInput(
                f"executor.resources.{claimant}: with {pair[0]:g} {name} it leaves no room for a "
                f"worker, which asks for {pair[1]:g}: the cluster has {there:g}.",
                "Ask for less: the stage's own process does little, its workers step the episodes.",
            )


def _probe(jobs: Jobs, workdir: Path) -> list[NodeReport]:
    """What a job finds on every node."""
    workdir.mkdir(parents=True, exist_ok=True)
    with _asking_folder(workdir) as folder:
        argv = (sys.executable, "-m", "lefleet", "cluster", "probe", str(folder), _nonce_of(folder))
        require_allowed(argv)
        name = f"lefleet-probe-{token_hex(8)}"
        jobs.submit(name, argv, StageResources(), stop_wait_s=5.0)
        said = _outcome(jobs, name)
        report = folder / _REPORT
        if report.exists():
            return list(decode(report.read_bytes(), list[NodeReport], str(report)))
    raise BadInput(
        f"executor.address: a trial on the cluster at {jobs.address} failed: {said}.",
        f"Its nodes need the work folder, and LeFleet with the extra ray at {sys.executable}.",
    )


def _outcome(jobs: Jobs, name: str) -> str:
    """Waits for the trial; its last words."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        job = jobs.find(name)
        if job is None or job.has_ended:
            lines = [line for line in jobs.log(name).splitlines() if line.strip()]
            return (lines or ["it printed nothing"])[-1].strip().rstrip(".")
        time.sleep(0.3)
    with suppress(ClusterUnreachable):
        jobs.stop(name)
    return f"it did not end within {_PATIENCE_S:g} s"


@contextmanager
def _asking_folder(workdir: Path) -> Iterator[Path]:
    """A folder in the work folder with a nonce, and a lock that this process holds."""
    folder = workdir / f".probe-{token_hex(8)}"
    folder.mkdir()
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        take_lock(lock)
        # As a stage's fence: for this user alone.
        write_durably(folder / _NONCE, token_hex(16).encode(), 0o600)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _nonce_of(folder: Path) -> str:
    return (folder / _NONCE).read_text()


def probe_nodes(folder: Path, nonce: str) -> int:
    """The job: look on every node, and write down what was found."""
    ray = connected()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(_look)
    alive = [node for node in ray.nodes() if node["Alive"]]
    promises = [
        look.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(str(folder), nonce, sys.executable)
        for node in alive
    ]
    reports = [_report(ray, node, promise) for node, promise in zip(alive, promises, strict=True)]
    write_durably(folder / _REPORT, encode(reports))
    return 0


def _report(ray: Any, node: dict[str, Any], promise: Any) -> NodeReport:
    resources = {
        name: float(amount)
        for name, amount in node["Resources"].items()
        if not re.match(r"node:|memory|object_store_memory", name)
    }
    try:
        problem = ray.get(promise, timeout=_NODE_PATIENCE_S)
    except ray.exceptions.RayError as error:
        problem = f"could not be looked at: {(str(error).splitlines() or [''])[-1].strip('. ')}"
    name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    return NodeReport(name=name, resources=resources, problem=problem)


def _look(folder: str, nonce: str, python: str) -> str:
    """On a node: what is wrong there, as the rest of a sentence; empty where nothing is."""
    here = Path(folder)
    if not os.access(python, os.X_OK):
        return f"has no {python}, which stages are started with"
    try:
        if _nonce_of(here) != nonce:
            return f"has another folder at {here.parent}"
        (here / f"node-{token_hex(8)}").write_text(nonce)
        if not is_held(here / _LOCK):
            return f"does not see locks of other machines in {here.parent}"
    except OSError as error:
        return f"cannot use the work folder {here.parent}: {error.strerror}"
    return ""
