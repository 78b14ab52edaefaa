"""One run whole: the flow of its cycle, training curves, films, its seeds, and which data made
its checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import yaml

from lefleet.ledger import Ledger
from lefleet.loop.state import CycleState, RunState
from lefleet.loop.steps import improves, steps_of_cycle
from lefleet.queries.datasets import dataset_id
from lefleet.queries.runs import RunCard, RunReader, RunReading, card
from lefleet.queries.status import RunStatus
from lefleet.queries.trouble import Trouble, trouble
from lefleet.queries.words import duration
from lefleet.records import CheckpointRecord
from lefleet.records.border import Strict

StepState = Literal["done", "now", "next", "skipped", "failed", "waits"]


class FlowStep(Strict, frozen=True, kw_only=True):
    """One step of the cycle that the run is in, or of its last one."""

    name: str
    """propose, collect, train, evaluate, gate, decide or improve."""
    state: StepState
    detail: str
    """How long it took, how far it is, or why it failed."""
    progress: float | None
    """From 0 to 1 while it can be counted."""


class TrainingCurve(Strict, frozen=True, kw_only=True):
    """The loss of one cycle's training."""

    cycle: int
    policy_type: str
    steps: tuple[int, ...]
    losses: tuple[float | None, ...]


class DataLink(Strict, frozen=True, kw_only=True):
    """A dataset that a checkpoint was trained on, or that such a one was merged from."""

    id: str
    """Names it on the pages and in the API."""
    digest: str
    episodes: int
    run: str
    cycle: int
    stage: str
    is_trained_on: bool
    """False: one of those that were merged into it."""


class CheckpointLineage(Strict, frozen=True, kw_only=True):
    """Which data made a checkpoint, and what judged it."""

    digest: str
    path: str
    run: str
    cycle: int
    init: str
    """Digest of the checkpoint that its training started from; empty for a fresh one."""
    data: tuple[DataLink, ...]
    judged_by: int
    """Episodes, in evaluations and gates."""


class StageSeed(Strict, frozen=True, kw_only=True):
    """Where a stage's seeds begin: with it, and the same versions, it can be repeated."""

    cycle: int
    stage: str
    first_seed: int


class EvaluationFilm(Strict, frozen=True, kw_only=True):
    """A filmed episode of a cycle's fixed block."""

    cycle: int
    task: str
    seed: int
    success: bool
    file: str
    """Name of the file in the folder of films."""


class RunDetail(Strict, frozen=True, kw_only=True):
    """One run."""

    card: RunCard
    status: RunStatus
    flow: tuple[FlowStep, ...]
    trouble: Trouble | None
    curves: tuple[TrainingCurve, ...]
    lineage: CheckpointLineage | None
    """Of the blessed checkpoint; None before there is one."""
    films: tuple[EvaluationFilm, ...]
    config: str
    """YAML, as it was begun."""


def run_detail(reader: RunReader, run: str) -> RunDetail:
    """One run; BadInput where there is none of that name."""
    facts = reader.facts(run)
    state = facts.state
    return RunDetail(
        card=card(facts),
        status=facts.status,
        flow=_flow(facts, state) if state else (),
        trouble=trouble(facts, reader),
        curves=_curves(state) if state else (),
        lineage=lineage(reader, facts.status.blessed, run) if facts.status.blessed else None,
        films=_films(reader.ledger, run, state) if state else (),
        config=yaml.safe_dump(facts.row.corrected_config, sort_keys=False, allow_unicode=True),
    )


def lineage(reader: RunReader, digest: str, run: str) -> CheckpointLineage | None:
    """None where the ledger does not know the checkpoint."""
    found = reader.ledger.lineage(digest, run)
    if not found:
        return None
    datasets = found["datasets"]
    return CheckpointLineage(
        digest=digest,
        path=found["path"],
        run=found["run"],
        cycle=found["cycle"],
        init=found["init"],
        data=tuple(
            DataLink(
                id=dataset_id(Path(one["root"])),
                digest=one["digest"],
                episodes=len(one["episodes"]),
                run=one["run"],
                cycle=one["cycle"],
                stage=one["stage"],
                is_trained_on=number == 0,
            )
            for number, one in enumerate(datasets)
        ),
        judged_by=found["evaluation_episodes"],
    )


def _flow(facts: RunReading, state: RunState) -> tuple[FlowStep, ...]:
    """The steps of the cycle that the run is at, in their order."""
    at = facts.place() or (state.current.index, "")
    if at[0] >= len(state.cycles):  # Nothing of it is in the ledger yet.
        state = replace(state, cycles=[*state.cycles, CycleState(at[0], {}, None)])
    cycle = state.cycles[at[0]]
    names = steps_of_cycle(
        state.config,
        cycle.index,
        has_gate=state.has_gate(cycle.index) or (cycle.decision is None and cycle.index > 0),
        has_blessed=state.blessed() is not None or cycle.decision is None,
        asks_model="propose" in cycle.records,
        may_improve=improves(cycle),
    )
    steps = []
    for name in names:
        if name == "propose":
            continue  # Asking a model is a part of settling the proposal.
        shown = "propose" if name == "settle" else name
        steps.append(_step(facts, state, cycle, shown, is_at=at[1] == shown))
    return tuple(steps)


def _step(
    facts: RunReading, state: RunState, cycle: CycleState, name: str, *, is_at: bool
) -> FlowStep:
    status, now = facts.status, facts.status.now
    made = [one for one in state.attempts if (one.cycle, one.stage) == (cycle.index, name)]
    is_now = now is not None and now.cycle == cycle.index and now.stage == name
    step_state: StepState = "next"
    detail, progress = "", None
    if is_at and status.word in ("denied", "failed"):
        step_state, detail = "failed", made[-1].error if made else status.word
    elif name == "propose":
        step_state = "done" if cycle.proposal or cycle.records else "next"
    elif name == "decide":
        step_state = "done" if cycle.decision else "next"
        detail = cycle.decision.decision if cycle.decision else ""
        if status.word == "waiting" and not cycle.decision:
            step_state, detail = "waits", "a person decides"
    elif name in cycle.records:
        step_state = "done"
        detail = duration(sum(one.worked_s() for one in made))
    elif name in cycle.skipped:
        step_state = "skipped"
    elif is_now and now is not None:
        step_state, detail = "now", now.text()
        report = now.progress
        progress = min(1.0, report.done / report.total) if report.total else None
    elif made and status.word in ("failed", "interrupted", "denied", "stopped"):
        step_state, detail = "failed", made[-1].error or status.word
    return FlowStep(name=name, state=step_state, detail=detail, progress=progress)


def _curves(state: RunState) -> tuple[TrainingCurve, ...]:
    made = [(one.index, record) for one in state.cycles if (record := one.checkpoint())]
    return tuple(curve(cycle, record) for cycle, record in made)


def curve(cycle: int, record: CheckpointRecord) -> TrainingCurve:
    """The loss of a training."""
    return TrainingCurve(
        cycle=cycle,
        policy_type=record.policy_type,
        steps=tuple(point.step for point in record.curve),
        losses=tuple(point.loss for point in record.curve),
    )


def _films(ledger: Ledger, run: str, state: RunState) -> tuple[EvaluationFilm, ...]:
    """Of the newest cycle that has any."""
    for cycle in reversed(state.cycles):
        films = [
            EvaluationFilm(
                cycle=cycle.index,
                task=one.task,
                seed=one.seed,
                success=one.success,
                file=Path(one.video).name,
            )
            for one in ledger.episodes.filmed(run, cycle.index, "evaluate")
        ]
        if films:
            return tuple(films)
    return ()


def stage_seeds(reader: RunReader, run: str) -> tuple[StageSeed, ...]:
    """Of the last attempt at each stage that draws seeds. BadInput: there is no such run."""
    state = reader.facts(run).state
    found: dict[tuple[int, str], int] = {}
    for attempt in state.attempts if state else ():
        seed = getattr(attempt.request, "seed", None)
        if isinstance(seed, int):
            found[attempt.cycle, attempt.stage] = seed
    return tuple(
        StageSeed(cycle=cycle, stage=stage, first_seed=seed)
        for (cycle, stage), seed in found.items()
    )
