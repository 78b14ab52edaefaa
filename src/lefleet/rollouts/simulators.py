"""Shares batches among worker processes and yields finished episodes."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

from lefleet.cluster.pools import worker_pool, workers_elsewhere
from lefleet.rollouts.messages import BEGUN, EpisodeBatch, Finished


class Simulators:
    """Worker processes that run batches, here or on the nodes of a cluster; they end with the
    `with` block.

    with Simulators(workers=2, device="cpu", log=folder / "workers.log") as simulators:
        for finished in simulators.run(batches): ...
    """

    def __init__(
        self,
        *,
        workers: int,
        device: str,
        log: Path,
        on_wait: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`on_wait`: see `worker_pool`."""
        argv = (sys.executable, "-m", "lefleet.rollouts.worker", device)
        self._pool = worker_pool(argv, workers or default_workers(), log, on_wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def run(
        self, batches: Iterable[EpisodeBatch], on_begin: Callable[[], None] = lambda: None
    ) -> Iterator[Finished]:
        """Every episode of every batch, in the order in which they end.

        `on_begin` is called when a worker has started, loaded its policy, and begins to simulate.
        """
        for line in self._pool.run(msgspec.json.encode(batch) for batch in batches):
            if line == BEGUN:
                on_begin()
            else:
                yield msgspec.json.decode(line, type=Finished)


def default_workers(device: str = "cpu", env: Mapping[str, str] | None = None) -> int:
    """One worker per core that this process may use, or that its cluster has.

    Policies for other environments are large, and every worker has its own copy: on a GPU, one.
    """
    if env and device != "cpu":
        return 1
    if count := workers_elsewhere():
        return count
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
