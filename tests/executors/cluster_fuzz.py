"""The fuzz of runs on a cluster of two nodes on this machine: nodes and the head die too."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec

from lefleet.cluster.nodes import (
    FOLDER,
    MARK,
    LocalCluster,
    NodeStarter,
    down,
    set_variables,
    up,
    wait_until_ready,
)
from lefleet.errors import BadInput, StageFailed
from lefleet.process import processes_marked
from lefleet.records import RunConfig
from lefleet.records.executor import ExecutorPlan
from tests.loop.fuzz import Fuzz, Seen, _look, _processes


class TwoNodes:
    """A cluster of two nodes, which dies with this process."""

    def __init__(self, workdir: Path, cpus: int = 1) -> None:
        self.workdir = workdir
        with patch.dict(os.environ):
            self.cluster: LocalCluster = up(workdir, 2, cpus, detached=False)
        self.plan = ExecutorPlan(
            type="ray", address=self.cluster.address, token_file=self.cluster.token_file
        )

    def processes(self, *, head: bool) -> list[Seen]:
        """The program of each node that starts the others of it and that they die with."""
        folder = str(self.workdir / FOLDER)
        marked = [pid for pid, name in processes_marked(MARK).items() if name == folder]
        nodes = [seen for pid in marked if (seen := _look(pid)) is not None]
        return [
            seen
            for seen in nodes
            if "ray.scripts.scripts" in seen.argv and ("--head" in seen.argv) == head
        ]

    def keep_up(self) -> None:
        """Start again what has died, as whoever runs the cluster would do. A node dies by itself,
        after a while, when its head was replaced."""
        has_head, has_node = self.processes(head=True), self.processes(head=False)
        if has_head and has_node:
            return
        with patch.dict(os.environ):
            set_variables(self.workdir / FOLDER, self.cluster)
            starter = NodeStarter(self.cluster, self.workdir / FOLDER, detached=False)
            if not has_head:
                self._start_head(starter)
            if not has_node:
                starter.node(1)

    def _start_head(self, starter: NodeStarter) -> None:
        """What the last head has left dies a little later, and keeps its ports until then."""
        for tries_left in reversed(range(5)):
            started = starter.head()
            try:
                wait_until_ready(self.cluster, 1, lambda one=started: one.poll() is not None)
            except StageFailed:
                if not tries_left:
                    raise
            else:
                return

    def end(self) -> None:
        down(self.workdir)


class ClusterFuzz(Fuzz):
    """Targets beside those of any run: driver, node, head."""

    def __init__(self, nodes: TwoNodes, config: RunConfig, seed: int, extended: int = 0) -> None:
        self._nodes = nodes
        config = msgspec.structs.replace(config, executor=nodes.plan)
        super().__init__(nodes.workdir, config, seed, extended)

    def _resume(self) -> None:
        try:
            super()._resume()
        except BadInput:
            # Its head is being restarted.
            time.sleep(0.5)

    def _processes_of(self, target: str) -> list[Seen]:
        if target == "driver":
            return list(self._drivers())
        if target in ("node", "head"):
            # In the middle of a stage, or there is nothing to lose.
            return self._nodes.processes(head=target == "head") if self._bodies() else []
        return super()._processes_of(target)

    def _is_finished(self) -> bool:
        self._nodes.keep_up()
        return super()._is_finished()

    def _bodies(self) -> list[Seen]:
        return [seen for seen in self._stage_processes() if "exec" in seen.argv]

    def _drivers(self) -> Iterator[Seen]:
        for seen in _processes():
            if seen.argv[2:5] == ("lefleet", "stage", "drive") and seen.argv[5].startswith(
                f"{self._folder}/"
            ):
                yield seen
