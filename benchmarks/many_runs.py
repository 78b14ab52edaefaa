"""A work folder with many runs that have ended, and very many events: as if months had passed.

Every run has three cycles with all their stages, records, decisions and episodes, written as a
controller writes them. Further events of its stages are inserted in bulk, between those and its
end.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import URL, create_engine, insert

from lefleet.ledger import Ledger, open_ledger, read_ledger, schema
from lefleet.ledger.address import FILE
from lefleet.loop.config import DEMO_CONFIG, load_config
from lefleet.records import (
    CompareRequest,
    EpisodeRecord,
    EvaluateRequest,
    ExpertDemos,
    PolicyResult,
    Proposal,
    Rate,
    TrainRequest,
)
from lefleet.stages.verdict import Trial, gate_order
from lefleet.stats import exact_interval
from tests.loop.states import decision
from tests.samples import (
    checkpoint_record,
    comparison_record,
    dataset_record,
    evaluation_record,
    gate_result,
    loss_point,
)

TASKS = ("push", "pick-place", "door-open")
PER_TASK = 6
"""Episodes of each task in each evaluation."""
PAIRS = {1: 11, 2: 12}
"""Of the gates, by cycle."""
EPISODES = 3 * PER_TASK * len(TASKS) + 2 * sum(PAIRS.values())
"""Of one run: 100."""
WAITING, FAILED, STOPPED = 2, 5, 3
"""Runs that did not finish, the newest ones."""
_BATCH = 50_000


class ManyRuns(NamedTuple):
    """How much a ledger has."""

    runs: int
    events: int
    """Of all runs; each has at least those of its stages."""

    @property
    def episodes(self) -> int:
        return self.runs * EPISODES


def name_of(number: int) -> str:
    return f"run-{number:03d}"


def make(folder: Path, size: ManyRuns) -> ManyRuns:
    """Fill a folder, unless it was filled before; what it has then."""
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        _fill(partial, size)
        partial.rename(folder)
    with closing(read_ledger(folder)) as ledger:
        return ManyRuns(len(ledger.run_heads()), ledger.feed.newest())


def _fill(folder: Path, size: ManyRuns) -> None:
    config = msgspec.to_builtins(load_config(DEMO_CONFIG))
    names = [name_of(number) for number in range(size.runs)]
    with closing(open_ledger(folder)) as ledger:
        for name in names:
            _begin(ledger, name, {**config, "name": name})
        there = ledger.feed.newest()
        _add_events(folder / FILE, names, size.events - there - len(names) - WAITING)
        for number, name in enumerate(names):
            _end(ledger, name, from_newest=size.runs - 1 - number)


def _begin(ledger: Ledger, run: str, config: dict[str, Any]) -> None:
    """Three cycles."""
    ledger.create_run(run, config)
    for cycle in range(3):
        mine, before = _digest(run, cycle), _digest(run, max(0, cycle - 1))
        why = f"{2 * len(TASKS)} new demonstrations, 2 of each task"
        counts = dict.fromkeys(TASKS, 2)
        ledger.record_proposal(
            run,
            Proposal(
                cycle=cycle, action="demonstrations", episodes=counts, source="schedule", why=why
            ),
        )
        root, data = f"/data/{run}/cycle_{cycle}", f"data {mine}"
        collect = ledger.start_attempt(run, cycle, "collect", ExpertDemos(tasks=TASKS))
        parents = (f"data {before}",) if cycle else ()
        ledger.commit_stage(collect, dataset_record(root=root, digest=data, parents=parents))
        train = ledger.start_attempt(run, cycle, "train", TrainRequest(dataset=root, tasks=TASKS))
        curve = tuple(loss_point(50 * step, 1.0 / step) for step in range(1, 21))
        made = checkpoint_record(digest=mine, path=f"{root}/train", curve=curve)
        contract = msgspec.structs.replace(made.contract, dataset_digest=data)
        ledger.commit_stage(train, msgspec.structs.replace(made, contract=contract))
        _evaluate(ledger, run, cycle, mine)
        if cycle in PAIRS:
            _compare(ledger, run, cycle, mine, before)
        name = "promote" if cycle else "baseline"
        better = gate_result(verdict="better", ended="better") if cycle else None
        ledger.record_decision(
            run,
            decision(cycle, name, mine, candidate=mine, why=f"{name} it was", gate=better),
        )


def _evaluate(ledger: Ledger, run: str, cycle: int, digest: str) -> None:
    episodes = [
        _episode("candidate", Trial(task, 100_000_000 + seed), success=seed <= 2 * cycle)
        for task in TASKS
        for seed in range(PER_TASK)
    ]
    per_task = {task: _rate([one for one in episodes if one.task == task]) for task in TASKS}
    result = PolicyResult(
        checkpoint=f"/data/{run}",
        digest=digest,
        overall=_rate(episodes),
        per_task=per_task,
        mean_progress=0.5,
        mean_length=60.0,
    )
    request = EvaluateRequest(checkpoint=f"/data/{run}", tasks=TASKS, episodes_per_task=PER_TASK)
    attempt = ledger.start_attempt(run, cycle, "evaluate", request)
    record = evaluation_record(result=result, tasks=TASKS, episodes_per_task=PER_TASK)
    ledger.commit_stage(attempt, record, episodes)


def _compare(ledger: Ledger, run: str, cycle: int, mine: str, before: str) -> None:
    pairs = PAIRS[cycle]
    request = CompareRequest(checkpoint=mine, baseline=before, tasks=TASKS, max_pairs=pairs)
    order = gate_order(request, TASKS)[:pairs]
    episodes = [
        _episode(role, trial, success=role == "candidate" or number % 3 == 0)
        for number, trial in enumerate(order)
        for role in ("candidate", "baseline")
    ]
    judged = comparison_record()
    of_task = judged.per_task["push"]
    per_task = {
        task: msgspec.structs.replace(of_task, pairs=sum(one.task == task for one in order))
        for task in TASKS
    }
    gate = gate_result(verdict="better", ended="better", pairs=pairs, max_pairs=pairs)
    looks = [
        msgspec.structs.replace(judged.looks[0], pairs=seen, wins=seen, losses=0)
        for seen in range(1, pairs + 1)
    ]
    record = msgspec.structs.replace(
        judged, candidate=mine, baseline=before, per_task=per_task, gate=gate, looks=tuple(looks)
    )
    ledger.commit_stage(ledger.start_attempt(run, cycle, "gate", request), record, episodes)


def _episode(role: Any, trial: Trial, *, success: bool) -> EpisodeRecord:
    return EpisodeRecord(
        policy=role, task=trial.task, seed=trial.seed, success=success, progress=0.5, length=60
    )


def _rate(episodes: Sequence[EpisodeRecord]) -> Rate:
    won, count = sum(one.success for one in episodes), len(episodes)
    interval = exact_interval(won, count)
    return Rate(successes=won, episodes=count, rate=won / count, interval=interval)


def _digest(run: str, cycle: int) -> str:
    return f"{run} cycle {cycle}".ljust(64, "0")


def _end(ledger: Ledger, run: str, *, from_newest: int) -> None:
    """The newest runs did not finish."""
    if from_newest < WAITING:
        ledger.approvals.ask(
            run,
            "promote",
            "the candidate",
            cycle=2,
            text="promote the candidate of cycle 2: better than the baseline",
            evidence={"pairs": PAIRS[2]},
            timeout_s=0.0,
            on_timeout="reject",
        )
        ledger.set_run_state(run, "waiting", "a person")
    elif from_newest < WAITING + FAILED:
        ledger.set_run_state(run, "failed", "train failed 3 times: the disk is full")
    elif from_newest < WAITING + FAILED + STOPPED:
        ledger.set_run_state(run, "stopped", "somebody stopped it")
    else:
        ledger.set_run_state(run, "finished", "all 3 cycles are done")


def _add_events(file: Path, runs: Sequence[str], count: int) -> None:
    """Of stages that started, failed and started again; the runs in turn, as if all had run at the
    same time: so the events of one run lie far from each other."""
    rows: list[dict[str, Any]] = []
    engine = create_engine(URL.create("sqlite", database=str(file)))
    with engine.begin() as connection:
        for row in _events(runs, count):
            rows.append(row)
            if len(rows) == _BATCH:
                connection.execute(insert(schema.event), rows)
                rows = []
        if rows:
            connection.execute(insert(schema.event), rows)
    engine.dispose()


def _events(runs: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
    now = time.time()
    for number in range(max(0, count)):
        attempt = number // (2 * len(runs)) + 2
        data: dict[str, Any] = {"cycle": 2, "stage": "train", "attempt": attempt}
        kind = "stage_started"
        if number // len(runs) % 2:
            kind = "stage_killed"
            data = {"cycle": 2, "stage": "train", "error": "killed by signal 9: out of memory?"}
        yield {"run": runs[number % len(runs)], "at": now, "kind": kind, "data": data}
