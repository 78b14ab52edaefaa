"""Kills processes of a real run at random moments and watches what must never happen."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from lefleet.ledger import Ledger, open_ledger
from lefleet.loop.runs import begin, change_config, is_controlled, resume
from lefleet.loop.state import stored_config
from lefleet.process import processes_marked
from lefleet.records import (
    Budgets,
    EvaluatePlan,
    ExpertGrowth,
    GatePlan,
    RunConfig,
    Rung,
)
from lefleet.stages.folder import is_locked
from lefleet.stages.progress import read_progress
from lefleet.stages.run import STAGE_MARK
from tests.postgres import PostgresServer

_LOOK_EVERY_S = 0.03
"""Two bodies at once would be seen many times; looking all the time takes a core from the run."""
_DYING_S = 2.0
"""A process that was killed may hold its locks a little longer than it can be seen."""


def tiny_config(name: str, cycles: int = 1) -> RunConfig:
    """The smallest run with real simulation, a real lerobot-train and its data workers."""
    return RunConfig(
        name=name,
        tasks=("push",),
        collect=ExpertGrowth(episodes_per_task=(1, 2)),
        ladder=(Rung(name="tiny", steps=30, batch_size=8, num_workers=1),),
        evaluate=EvaluatePlan(episodes_per_task=1, videos_per_task=0),
        gate=GatePlan(max_pairs=1),
        budgets=Budgets(cycles=cycles),
        max_attempts=100,
    )


class Seen(NamedTuple):
    """One living process of a run."""

    pid: int
    parent: int
    started: int
    """Clock ticks since the machine started."""
    argv: tuple[str, ...]


class Fuzz:
    """One run under attack. `kills` counts by target, `overlaps` lists what must not be."""

    def __init__(
        self,
        workdir: Path,
        config: RunConfig,
        seed: int,
        extended: int = 0,
        server: PostgresServer | None = None,
    ) -> None:
        """`extended` is a number of cycles that the run is given once it has finished. The ledger
        of a new work folder is on the server, if there is one; then that is a target too."""
        self.workdir = workdir
        self.config = config
        self._cycles = extended or config.budgets.cycles
        self.kills: Counter[str] = Counter()
        self.overlaps: list[str] = []
        self._random = random.Random(seed)
        self._ownerless: dict[Path, float] = {}
        self._folder = workdir / config.name
        self._server = server
        self._ledger = open_ledger(workdir, server.create() if server else "")
        begin(self._ledger, workdir, config)

    def attack(self, wanted: dict[str, int], deadline_s: float) -> None:
        """Kill until every target was hit as often as wanted, then let the run finish.

        Whenever the controller is gone, the run is resumed, as a person would do.
        """
        deadline = time.monotonic() + deadline_s
        next_kill = time.monotonic()
        while not self._is_finished():
            assert time.monotonic() < deadline, f"not finished; kills: {dict(self.kills)}"
            time.sleep(_LOOK_EVERY_S)
            self._look_for_overlaps()
            self._look_for_orphaned_locks()
            if not self._is_controlled():
                self._resume()
                self._wait_for(lambda: self._is_controlled() or self._is_finished(), deadline)
            left = [target for target in wanted if self.kills[target] < wanted[target]]
            if left and time.monotonic() >= next_kill and self._kill_one(left):
                next_kill = time.monotonic() + self._random.uniform(0.0, 3.0)
        self._wait_for(lambda: not self._is_controlled(), deadline)

    def _resume(self) -> None:
        resume(self._ledger, self.workdir, self._row())

    def assert_sound(self) -> None:
        """What must hold after any attack."""
        assert self.overlaps == []
        assert list(self._stage_processes()) == [], "an orphan is left"
        assert self._row().state == "finished", self._row()
        committed = Counter(
            (attempt.cycle, attempt.stage)
            for attempt in open_ledger(self.workdir).attempts(self.config.name)
            if attempt.state == "committed"
        )
        assert set(committed.values()) == {1}, committed
        decisions = self._ledger.decisions(self.config.name)
        assert [decision.cycle for decision in decisions] == list(range(self._cycles))
        assert_journal_equals_table(self._ledger, self.config.name, self._folder)

    def ends(self) -> dict[str, list[str]]:
        """How the attempts at each stage ended, in their order."""
        found: dict[str, list[str]] = {}
        for attempt in self._ledger.attempts(self.config.name):
            found.setdefault(attempt.stage, []).append(attempt.state)
        return found

    def _kill_one(self, targets: list[str]) -> bool:
        """Kill a random process of a random target that is there; False when none is."""
        victims = [(target, seen.pid) for target in targets for seen in self._processes_of(target)]
        if self._server is not None and "server" in targets:
            victims.append(("server", 0))
        if not victims:
            return False
        target, pid = self._random.choice(victims)
        try:
            self._strike(target, pid)
        except ProcessLookupError:
            return False
        self.kills[target] += 1
        return True

    def _strike(self, target: str, pid: int) -> None:
        if target == "server":
            self._server.kill()
            self._server.start()
        else:
            os.kill(pid, signal.SIGKILL)

    def _processes_of(self, target: str) -> list[Seen]:
        if target == "controller":
            return [
                seen
                for seen in _processes()
                if seen.argv[2:5] == ("lefleet", "controller", "exec")
                and seen.argv[5:] == (str(self.workdir), self.config.name)
            ]
        return [seen for seen in self._stage_processes() if _kind(seen) == target]

    def _is_half_done(self, stage: str) -> bool:
        """Whether the stage, or any where it is *, has done some of what it counts, and not all."""
        for folder in self._folder.glob(f"cycle_*/{stage}"):
            said = read_progress(folder)
            if said is not None and 0 < said.done < said.total and self._family(folder):
                return True
        return False

    def _stage_processes(self) -> Iterator[Seen]:
        for folder in self._folder.glob("cycle_*/*"):
            yield from self._family(folder)

    def _look_for_overlaps(self) -> None:
        """Two bodies of one stage, or a body beside what another one left, seen twice in a row."""
        for folder in self._folder.glob("cycle_*/*"):
            leftovers = self._leftovers(folder) & self._leftovers(folder)
            if leftovers:
                self.overlaps.append(f"{folder.name}: {sorted(leftovers)}")

    def _leftovers(self, folder: Path) -> set[int]:
        """Processes of the stage in `folder` that are older than its newest body."""
        family = {seen.pid: seen for seen in self._family(folder)}
        # A child that has not replaced itself yet looks like the body that forked it.
        bodies = [
            seen for seen in family.values() if _kind(seen) == "stage" and seen.parent not in family
        ]
        newest = max((body.started for body in bodies), default=0)
        return {seen.pid for seen in family.values() if seen.started < newest}

    def _look_for_orphaned_locks(self) -> None:
        """A lock is free soon after its owner died; one that a child inherited is not."""
        held = {
            folder
            for folder in self._folder.glob("cycle_*/*")
            if is_locked(folder) and not any(_kind(s) == "stage" for s in self._family(folder))
        }
        if self._is_controlled() and not self._processes_of("controller"):
            held.add(self._folder)
        now = time.monotonic()
        self._ownerless = {folder: self._ownerless.get(folder, now) for folder in held}
        for folder, since in self._ownerless.items():
            assert now - since < _DYING_S, f"the lock of {folder} is held, its owner is dead"

    def _family(self, folder: Path) -> list[Seen]:
        """Living processes of the stage in `folder`."""
        marked = processes_marked(STAGE_MARK)
        pids = [pid for pid, name in marked.items() if name == str(folder)]
        return [seen for pid in pids if (seen := _look(pid)) is not None]

    def _is_controlled(self) -> bool:
        return is_controlled(self._ledger, self.config.name)

    def _row(self):
        return self._ledger.run(self.config.name)

    def _is_finished(self) -> bool:
        row = self._row()
        assert row.state != "failed", row.reason
        if row.state == "finished" and stored_config(row).budgets.cycles < self._cycles:
            overrides = (f"--budgets.cycles={self._cycles}",)
            change_config(self._ledger, self.workdir, row, overrides)
            return False
        return row.state == "finished"

    @staticmethod
    def _wait_for(condition: Callable[[], bool], deadline: float) -> None:
        while not condition():
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)


def assert_journal_equals_table(ledger: Ledger, run: str, folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [event.id for event in ledger.events(run)]


def _kind(seen: Seen) -> str:
    if seen.argv[2:5] == ("lefleet", "stage", "exec"):
        return "stage"
    return "train" if "lefleet.compat.train" in seen.argv else "child"


def _processes() -> Iterator[Seen]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (seen := _look(int(entry.name))) is not None:
            yield seen


def _look(pid: int) -> Seen | None:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    text = tuple(os.fsdecode(part) for part in argv)
    return Seen(pid, int(fields[1]), int(fields[19]), text) if argv else None
