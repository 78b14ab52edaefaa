"""The workers of a stage: processes here, or where the stage's variables say so, on any node.

Whoever starts a body on a cluster sets the variable. So requests and records of a stage are the
same wherever it runs, and its batches too: they are made before anything is shared among workers.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lefleet.process import Pool
from lefleet.records.border import Strict
from lefleet.records.executor import ExecutorPlan, StageResources

WORKERS = "LEFLEET_WORKERS"
"""Environment variable of a body on a cluster: JSON of its `WorkerPlan`."""


class WorkerPlan(Strict, frozen=True, kw_only=True):
    """Workers on any node."""

    count: int
    """0: as many as the cluster has room for."""
    each: StageResources


class WorkerPool(Protocol):
    """Sends lines of work to workers and yields their lines of answers."""

    def run(self, work: Iterable[bytes]) -> Iterator[bytes]: ...

    def close(self) -> None: ...


def pool_variables(plan: ExecutorPlan, each: StageResources) -> dict[str, str]:
    """For a body whose workers may be on any node."""
    return {WORKERS: msgspec.json.encode(WorkerPlan(count=plan.workers, each=each)).decode()}


def worker_pool(
    argv: Sequence[str], size: int, log: Path, on_wait: Callable[[bool], None]
) -> WorkerPool:
    """`size` workers that run `argv`, where this process's variables say. `on_wait` is called with
    True while none of them has found room yet, and then with False."""
    if (plan := _plan()) is None:
        return Pool(argv, size, log)
    from lefleet.cluster.actors import ActorPool

    return ActorPool(argv, size, log, plan.each, on_wait)


def workers_elsewhere() -> int:
    """How many workers there are room for on the nodes of a cluster; 0 where workers are here."""
    if (plan := _plan()) is None:
        return 0
    if plan.count:
        return plan.count
    from lefleet.cluster.actors import capacity

    return capacity(plan.each)


def _plan() -> WorkerPlan | None:
    text = os.environ.get(WORKERS)
    return msgspec.json.decode(text, type=WorkerPlan) if text else None
