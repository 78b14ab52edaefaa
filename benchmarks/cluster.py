"""Episodes of one evaluation on two nodes of a Ray cluster, and what each stage costs there."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import msgspec

from benchmarks.report import Section, table
from benchmarks.workshop import EASY3, Workshop, say
from lefleet.cluster.jobs import Jobs
from lefleet.cluster.nodes import down, up
from lefleet.executors import Executor, LocalExecutor, for_plan
from lefleet.loop.stage_process import carry_out
from lefleet.records import EvaluateRequest, ExpertDemos, Record, TrainRequest
from lefleet.records.executor import ExecutorPlan, StageResources
from lefleet.stages.folder import RECORD

ROUNDS = 5
_EPISODES = "episodes.jsonl"


class Timed(NamedTuple):
    """One evaluation."""

    seconds: float
    """From asking for it to its record."""
    rate: float
    """Episodes per second, from the first that was written to the last."""
    lines: list[bytes]


def measure(workshop: Workshop) -> Section:
    demos, _ = workshop.stage(ExpertDemos(tasks=EASY3, episodes_per_task=2))
    trained, _ = workshop.stage(TrainRequest(dataset=str(demos), tasks=EASY3, steps=20))
    request = EvaluateRequest(
        checkpoint=str(trained),
        tasks=("push", "door-open"),
        episodes_per_task=1 if workshop.quick else 100,
    )
    workdir = workshop.folder / "cluster"
    workdir.mkdir()
    try:
        with patch.dict(os.environ):
            local = up(workdir, 2, 1, detached=False)
        plan = ExecutorPlan(type="ray", address=local.address, token_file=local.token_file)
        return _section(workdir, plan, request)
    finally:
        down(workdir)


def _section(workdir: Path, plan: ExecutorPlan, request: EvaluateRequest) -> Section:
    executors: dict[str, Executor] = {"this machine": LocalExecutor(), "Ray": for_plan(plan)}
    rows, seen = [], set()
    for name, executor in executors.items():
        found = []
        for workers in (1, 2):
            asked = msgspec.structs.replace(request, workers=workers)
            folder = workdir / f"{name}-{workers}".replace(" ", "-") / "cycle_0" / "evaluate"
            found.append(_evaluated(executor, asked, folder))
            say(f"{name}, {workers} workers: {found[-1].seconds:.0f} s")
            seen.add(tuple(found[-1].lines))
        one, two = found
        efficiency = (f"{one.seconds / two.seconds / 2:.0%}", f"{two.rate / one.rate / 2:.0%}")
        times = (f"{one.seconds:.0f} s", f"{two.seconds:.0f} s")
        rows.append(
            (name, *times, efficiency[0], f"{one.rate:.2f}", f"{two.rate:.2f}", efficiency[1])
        )
    header = (
        *("episodes on", "1 worker", "2 workers", "efficiency"),
        *("episodes/s on 1", "on 2", "efficiency of these"),
    )
    done = workdir / "Ray-1" / "cycle_0" / "evaluate"
    costs = _costs(executors, msgspec.structs.replace(request, workers=1), done, plan)
    count = 2 * request.episodes_per_task
    return Section(
        f"{count} evaluation episodes on the nodes of a cluster",
        (table(header, rows), table(("a stage with nothing left to do", "time"), costs)),
        (
            f"All {len(rows) * 2} evaluations gave "
            f"{'the same episodes' if len(seen) == 1 else f'{len(seen)} DIFFERENT results'}.",
            "Two nodes on this machine, with one CPU each; the stage's own process reserves none,",
            "and Ray shares the two cores too. The times in front are those of the whole",
            "stage, with imports; the rates count from the first batch to the last.",
            "In the second table a stage's episodes are there and only its record is missing.",
            f"Medians of {ROUNDS} rounds. A job of Ray that does nothing is Ray's part of a stage;",
            "the last row is what LeFleet adds to it: driver, fence, and a look once a second.",
        ),
    )


def _evaluated(executor: Executor, request: EvaluateRequest, folder: Path) -> Timed:
    counted: list[tuple[float, int]] = []

    def count() -> None:
        file = folder / _EPISODES
        lines = file.read_bytes().count(b"\n") if file.exists() else 0
        if lines and (not counted or lines != counted[-1][1]):
            counted.append((time.perf_counter(), lines))

    started = time.perf_counter()
    _carry_out(executor, request, folder, count)
    ended = time.perf_counter()
    lines = sorted((folder / _EPISODES).read_bytes().splitlines())
    begin, first = counted[0] if counted else (started, 0)
    rate = (len(lines) - first) / (ended - begin) if len(lines) > first else 0.0
    return Timed(ended - started, rate or len(lines) / (ended - started), lines)


def _costs(
    executors: dict[str, Executor], request: EvaluateRequest, folder: Path, plan: ExecutorPlan
) -> list[tuple[str, str]]:
    """Seconds of Ray's own job, and of a stage whose work is done, here and there."""
    found: dict[str, list[float]] = {"a job of Ray that does nothing": []}
    jobs = Jobs(plan.address, plan.token_file)
    for number in range(ROUNDS):
        started = time.perf_counter()
        jobs.submit(f"nothing-{number}", ("true",), StageResources(), 5.0)
        while not _has_ended(jobs, f"nothing-{number}"):
            time.sleep(0.1)
        found["a job of Ray that does nothing"].append(time.perf_counter() - started)
        for name, executor in executors.items():
            (folder / RECORD).unlink()
            started = time.perf_counter()
            _carry_out(executor, request, folder, lambda: None)
            found.setdefault(f"the stage on {name}", []).append(time.perf_counter() - started)
    ray, here, there = (median(times) for times in found.values())
    rows = [(name, f"{median(times):.1f} s") for name, times in found.items()]
    return [*rows, ("LeFleet's part on Ray", f"{there - here - ray:.1f} s")]


def _has_ended(jobs: Jobs, name: str) -> bool:
    job = jobs.find(name)
    return job is None or job.has_ended


def _carry_out(
    executor: Executor, request: EvaluateRequest, folder: Path, look: Callable[[], None]
) -> Record:
    return carry_out(request, folder, executor, must_end=look, on_launch=lambda: 1)
