"""The fuzz of runs on a cluster of two nodes on this machine: nodes and the head die too."""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
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
from lefleet.records.executor import ExecutorPlan, StageResources
from tests.loop.fuzz import Fuzz, Seen, _look, _processes
from tests.postgres import PostgresServer

_SLEEPS_S = 90.0
"""Longer than Ray takes to give up a node that does not answer."""
SECOND = "second"
"""A resource that only the second node has: a stage that asks for it runs there."""


class _SecondNode(NodeStarter):
    def _start(self, log: str, *flags: str):
        return super()._start(log, *flags, f'--resources={{"{SECOND}": 1}}')


class TwoNodes:
    """A cluster of two nodes, which dies with this process."""

    def __init__(self, workdir: Path, cpus: int = 1) -> None:
        self.workdir = workdir
        with patch.dict(os.environ):
            self.cluster: LocalCluster = up(workdir, 1, cpus, detached=False)
        self.keep_up()
        wait_until_ready(self.cluster, 2, lambda: not self.programs(head=False))

    def plan(self, *pinned: str) -> ExecutorPlan:
        """For a run whose stages `pinned` work on the second node."""
        there = StageResources(custom={SECOND: 1.0})
        return ExecutorPlan(
            type="ray",
            address=self.cluster.address,
            token_file=self.cluster.token_file,
            resources=dict.fromkeys(pinned, there),
        )

    def programs(self, *, head: bool) -> list[Seen]:
        """The program that a node was started with."""
        folder = str(self.workdir / FOLDER)
        marked = [pid for pid, name in processes_marked(MARK).items() if name == folder]
        nodes = [seen for pid in marked if (seen := _look(pid)) is not None]
        return [
            seen
            for seen in nodes
            if "ray.scripts.scripts" in seen.argv and ("--head" in seen.argv) == head
        ]

    def processes(self, *, head: bool) -> list[Seen]:
        """All of a node: its program and whatever that has started, directly or not."""
        seen = {one.pid: one for one in _processes()}
        found = {one.pid for one in self.programs(head=head)}
        while more := {pid for pid, one in seen.items() if one.parent in found} - found:
            found |= more
        return [seen[pid] for pid in found if pid in seen]

    def send(self, how: signal.Signals, *, head: bool) -> None:
        """To all of a node. SIGKILL is a power cut, SIGSTOP a machine that is suspended, or one
        that its network has left."""
        for seen in self.processes(head=head):
            with suppress(ProcessLookupError):
                os.kill(seen.pid, how)

    def keep_up(self) -> None:
        """Start again what has died, as whoever runs the cluster would do. A node dies by itself,
        after a while, when its head was replaced."""
        has_head, has_node = self.programs(head=True), self.programs(head=False)
        if has_head and has_node:
            return
        with patch.dict(os.environ):
            folder = self.workdir / FOLDER
            set_variables(folder, self.cluster)
            if not has_head:
                self._start_head(NodeStarter(self.cluster, folder, detached=False))
            if not has_node:
                _SecondNode(self.cluster, folder, detached=False).node(1)

    def _start_head(self, starter: NodeStarter) -> None:
        """What the last head has left dies a little later, and keeps its ports until then. Ray
        starts no head where it finds both this file and a node of the same address, which only two
        nodes on one machine leave."""
        for tries_left in reversed(range(5)):
            (Path(self.cluster.temp) / "ray_current_cluster").unlink(missing_ok=True)
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
    """Targets beside those of any run: the driver of a job, the program that keeps a node together
    (`raylet`), all of a node or of the head at once, and a node that falls asleep and comes back.
    These are hit in the middle of a stage: of the one called `stage`, if it is given."""

    def __init__(
        self,
        nodes: TwoNodes,
        config: RunConfig,
        seed: int,
        *,
        pinned: tuple[str, ...] = (),
        stage: str = "*",
        extended: int = 0,
        server: PostgresServer | None = None,
    ) -> None:
        self._nodes = nodes
        self._stage = stage
        self._wakes_at = math.inf
        config = msgspec.structs.replace(config, executor=nodes.plan(*pinned))
        super().__init__(nodes.workdir, config, seed, extended, server)

    def _resume(self) -> None:
        try:
            super()._resume()
        except BadInput:
            # Its head is being restarted.
            time.sleep(0.5)

    def _strike(self, target: str, pid: int) -> None:
        if target == "sleeper":
            self._wakes_at = time.monotonic() + _SLEEPS_S
            self._nodes.send(signal.SIGSTOP, head=False)
        elif target in ("node", "head"):
            self._nodes.send(signal.SIGKILL, head=target == "head")
        else:
            super()._strike(target, pid)

    def _processes_of(self, target: str) -> list[Seen]:
        if target == "driver":
            return list(self._drivers())
        if target not in ("node", "head", "raylet", "sleeper"):
            return super()._processes_of(target)
        if not self._is_half_done(self._stage):
            return []
        if target == "raylet":
            return [one for one in self._nodes.processes(head=False) if _is_raylet(one)]
        return self._nodes.programs(head=target == "head")

    def _is_finished(self) -> bool:
        if time.monotonic() > self._wakes_at:
            self._wakes_at = math.inf
            self._nodes.send(signal.SIGCONT, head=False)
        self._nodes.keep_up()
        return super()._is_finished()

    def _drivers(self) -> Iterator[Seen]:
        for seen in _processes():
            if seen.argv[2:5] == ("lefleet", "stage", "drive") and seen.argv[5].startswith(
                f"{self._folder}/"
            ):
                yield seen


def _is_raylet(seen: Seen) -> bool:
    return Path(seen.argv[0]).name == "raylet"
