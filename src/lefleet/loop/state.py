"""What has happened in a run, read from the ledger and nothing else, and what comes next."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import AttemptRow, Ledger, RunRow
from lefleet.records import (
    CheckpointRecord,
    ComparisonRecord,
    DatasetRecord,
    Decision,
    EvaluationRecord,
    MixRecord,
    Record,
    RunConfig,
)
from lefleet.records.border import as_bad_input


@dataclass(frozen=True)
class CycleState:
    """Committed stages and the decision of one cycle."""

    index: int
    records: dict[str, Record]
    decision: Decision | None
    skipped: frozenset[str] = frozenset()
    """Stages that failed for good and that the run can do without."""

    def dataset(self) -> DatasetRecord | None:
        record = self.records.get("collect")
        return record if isinstance(record, DatasetRecord) else None

    def checkpoint(self) -> CheckpointRecord | None:
        record = self.records.get("train")
        return record if isinstance(record, CheckpointRecord) else None

    def evaluation(self) -> EvaluationRecord | None:
        record = self.records.get("evaluate")
        return record if isinstance(record, EvaluationRecord) else None

    def gate(self) -> ComparisonRecord | None:
        record = self.records.get("gate")
        return record if isinstance(record, ComparisonRecord) else None

    def mix(self) -> MixRecord | None:
        record = self.records.get("improve")
        return record if isinstance(record, MixRecord) else None


@dataclass(frozen=True)
class RunState:
    """Everything that the next step depends on."""

    config: RunConfig
    cycles: list[CycleState]
    """One per cycle begun, the current one last; never empty."""
    device_seconds: float
    stop_requested: bool

    @property
    def current(self) -> CycleState:
        return self.cycles[-1]

    def blessed(self) -> CheckpointRecord | None:
        """The checkpoint that the last decision blessed."""
        digests = [cycle.decision.blessed for cycle in self.cycles if cycle.decision]
        if not digests or not digests[-1]:
            return None
        return next(
            checkpoint
            for cycle in self.cycles
            if (checkpoint := cycle.checkpoint()) and checkpoint.digest == digests[-1]
        )

    def gates_before(self, cycle: int) -> list[bool]:
        """Of every gate before `cycle`, in order, whether it promoted."""
        return [
            one.decision.decision == "promote"
            for one in self.cycles[:cycle]
            if one.decision is not None and self.has_baseline(one.index)
        ]

    def has_baseline(self, cycle: int) -> bool:
        """Whether there is something to compare the candidate of `cycle` with."""
        return any(one.decision and one.decision.blessed for one in self.cycles[:cycle])

    def rung(self) -> int:
        """Rung of the ladder that the current cycle trains on."""
        return sum(
            c.decision is not None and c.decision.decision == "escalate" for c in self.cycles
        )


class RunStage(NamedTuple):
    """Carry out a stage."""

    cycle: int
    stage: str


class Decide(NamedTuple):
    """Judge the current candidate."""

    cycle: int


class EndRun(NamedTuple):
    """There is nothing more to do."""

    state: str
    reason: str


Step = RunStage | Decide | EndRun


def steps_of_cycle(
    config: RunConfig, cycle: int, *, has_baseline: bool, has_blessed: bool
) -> tuple[str, ...]:
    """The stages of a cycle in their order, and `decide` where the decision is made.

    `has_baseline` says that a checkpoint was blessed before the cycle, `has_blessed` that one is
    blessed after its decision.
    """
    gate = ("gate",) if has_baseline else ()
    is_last = cycle + 1 >= config.budgets.cycles
    improves = config.improve.method != "none" and has_blessed and not is_last
    improve = ("improve",) if improves else ()
    return ("collect", "train", "evaluate", *gate, "decide", *improve)


def next_step(state: RunState) -> Step:
    """The next step of a run, derived from what is committed: a pure function."""
    if state.stop_requested:
        return EndRun("stopped", "by lefleet stop")
    cycle, cycles = state.current, state.config.budgets.cycles
    for step in steps_of_cycle(
        state.config,
        cycle.index,
        has_baseline=state.has_baseline(cycle.index),
        has_blessed=state.blessed() is not None,
    ):
        if step == "decide":
            if cycle.decision is None:
                return Decide(cycle.index)
            if cycle.decision.decision == "stop":
                return EndRun("finished", cycle.decision.why)
        elif step not in cycle.records and step not in cycle.skipped:
            return RunStage(cycle.index, step)
    if cycle.index + 1 >= cycles:
        return EndRun("finished", f"all {cycles} cycles are done")
    return RunStage(cycle.index + 1, "collect")


def read_state(ledger: Ledger, row: RunRow) -> RunState:
    """What the ledger has of a run; BadInput where this lefleet cannot read it."""
    config = stored_config(row)
    with _readable(row, "records"):
        attempts = ledger.attempts(row.id)
        decisions = {decision.cycle: decision for decision in ledger.decisions(row.id)}
    committed = [attempt for attempt in attempts if attempt.state == "committed"]
    last = max([0, *(attempt.cycle for attempt in attempts), *decisions])
    cycles = [
        CycleState(
            index,
            {a.stage: a.record for a in committed if a.cycle == index and a.record is not None},
            decisions.get(index),
            frozenset(a.stage for a in attempts if a.cycle == index and a.state == "skipped"),
        )
        for index in range(last + 1)
    ]
    return RunState(
        config,
        cycles,
        device_seconds=sum(_seconds(attempt) for attempt in attempts),
        stop_requested=row.stop_requested,
    )


def stored_config(row: RunRow) -> RunConfig:
    """The config that a run was begun with."""
    with _readable(row, "config"):
        return msgspec.convert(row.config, RunConfig)


@contextmanager
def _readable(row: RunRow, what: str) -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        problem = as_bad_input(error, f"run: this lefleet cannot read the {what} of {row.id}")
        remedy = "Use the lefleet that began it, or begin another run."
        raise BadInput(problem.problem, remedy) from error


def _seconds(attempt: AttemptRow) -> float:
    return (attempt.ended_at or attempt.started_at) - attempt.started_at
