"""What the ledger knows of every run, in the form in which pages and lessons need it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from lefleet.ledger import ApprovalRow, AttemptRow, EventRow, Ledger, RunRow
from lefleet.ledger.sections import JudgedEpisode
from lefleet.records import (
    CheckpointRecord,
    DatasetRecord,
    Decision,
    ExpertDemos,
    Proposal,
    Rate,
    Record,
    RunConfig,
    Rung,
    RunOrigin,
    TrainRequest,
)
from lefleet.records.cycle import CycleRecords

OWN_SIMULATION = "LeFleet's MetaWorld"
ALL = ""
"""Stands for all tasks of a run together; no task has this name."""


class FilmedEpisode(NamedTuple):
    """One filmed episode."""

    task: str
    path: str
    """Relative to the work folder."""
    success: bool


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One checkpoint in one task: with how much data, after how much training, how well."""

    run: str
    cycle: int
    tasks: tuple[str, ...]
    """One, or all of its run together."""
    environment: str
    policy: str
    """Name of its rung."""
    demonstrations: int | None
    """Of these tasks; None where the data does not tell tasks apart as the evaluation does."""
    made: dict[str, int]
    """Episodes of these tasks that policies made, by method, beside the demonstrations."""
    steps: int
    """Of training in all, those of the checkpoint that it continued from included."""
    rate: Rate
    outcomes: dict[tuple[str, int], bool]
    """Success by task and seed; empty where the ledger has no episodes."""
    failed_progress: float | None
    """Mean progress of the episodes that failed."""
    films: tuple[FilmedEpisode, ...]
    events: tuple[int, ...]
    decision: str
    """About its cycle."""


@dataclass(frozen=True, kw_only=True)
class CycleFacts(CycleRecords):
    """One cycle of a run, as far as it has come."""

    index: int
    records: dict[str, Record]
    collect: ExpertDemos | None
    train: TrainRequest | None
    decision: Decision | None
    proposal: Proposal | None
    approvals: tuple[ApprovalRow, ...]
    troubles: tuple[AttemptRow, ...]
    """Attempts that brought no record."""
    denials: tuple[dict[str, Any], ...]
    """What the constitution did not allow: rule, reason and remedy."""
    events: dict[str, int]
    """The event of each committed stage, and of the decision."""
    event_ids: tuple[int, ...]
    """Of all events that pages tell of."""
    steps: int = 0
    measured: dict[str, Measurement] = field(default_factory=dict)
    """By task, and of all tasks together under ALL; of decided cycles only."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """One run."""

    run: str
    state: str
    reason: str
    config: RunConfig
    origin: RunOrigin | None
    cycles: tuple[CycleFacts, ...]
    times: dict[int, float]
    """When each event happened, by its id."""

    def rung(self, cycle: CycleFacts) -> Rung | None:
        """That its candidate was trained on; None before the decision."""
        number = cycle.decision.rung if cycle.decision else len(self.config.ladder)
        return self.config.ladder[number] if number < len(self.config.ladder) else None

    def tasks(self) -> list[str]:
        """Evaluated ones, and before that those of the config."""
        evaluated = [e.result.per_task for c in self.cycles if (e := c.evaluation())]
        return list(dict.fromkeys(task for tasks in evaluated for task in tasks))

    def of_checkpoint(self, digest: str) -> CycleFacts | None:
        """The cycle that trained it."""
        return next((c for c in self.cycles if (r := c.checkpoint()) and r.digest == digest), None)


def read_facts(ledger: Ledger, ending: RunRow | None = None) -> list[RunFacts]:
    """All runs, oldest first, without those that another version of LeFleet wrote differently.

    `ending` replaces the row of its run: how it is about to end.
    """
    found = []
    for stored in ledger.runs():
        row = ending if ending and ending.id == stored.id else stored
        try:
            found.append(_read_run(ledger, row))
        except msgspec.ValidationError:
            continue
    steps = _steps(found)
    return [_measured(one, steps, ledger.sections.judged(one.run)) for one in found]


def _read_run(ledger: Ledger, row: RunRow) -> RunFacts:
    attempts, events = ledger.attempts(row.id), ledger.sections.evidence(row.id)
    decisions = {one.cycle: one for one in ledger.decisions(row.id)}
    proposals = {one.cycle: one for one in ledger.proposals(row.id)}
    approvals = ledger.approvals.all(row.id)
    indexes = {one.cycle for one in attempts} | decisions.keys() | proposals.keys()
    return RunFacts(
        run=row.id,
        state=row.state,
        reason=row.reason,
        config=msgspec.convert(row.corrected_config, RunConfig),
        origin=msgspec.convert(row.origin, RunOrigin | None),
        cycles=tuple(
            _cycle(
                index,
                [one for one in attempts if one.cycle == index],
                [one for one in events if one.data.get("cycle") == index],
                decision=decisions.get(index),
                proposal=proposals.get(index),
                approvals=tuple(one for one in approvals if one.cycle == index),
            )
            for index in sorted(indexes)
        ),
        times={one.id: one.at for one in events},
    )


def _cycle(
    index: int,
    attempts: list[AttemptRow],
    events: list[EventRow],
    *,
    decision: Decision | None,
    proposal: Proposal | None,
    approvals: tuple[ApprovalRow, ...],
) -> CycleFacts:
    done = {one.stage: one for one in attempts if one.state == "committed"}
    collect, train = (done[stage].request if stage in done else None for stage in _MAKING)
    return CycleFacts(
        index=index,
        records={stage: one.record for stage, one in done.items() if one.record is not None},
        collect=collect if isinstance(collect, ExpertDemos) else None,
        train=train if isinstance(train, TrainRequest) else None,
        decision=decision,
        proposal=proposal,
        approvals=approvals,
        troubles=tuple(one for one in attempts if one.state in _TROUBLES),
        denials=tuple(
            {name: one.data[name] for name in ("rule", "reason", "remedy") if name in one.data}
            for one in events
            if one.kind == "denied"
        ),
        events={
            "decision" if one.kind == "decision" else one.data["stage"]: one.id
            for one in events
            if one.kind in ("decision", "stage_committed")
        },
        event_ids=tuple(one.id for one in events),
    )


_MAKING = ("collect", "train")
_TROUBLES = ("failed", "killed", "gone", "skipped")


def _steps(runs: Iterable[RunFacts]) -> dict[str, int]:
    """Training steps in all, by checkpoint digest."""
    known: dict[str, CheckpointRecord] = {}
    for run in runs:
        if run.origin:
            known.setdefault(run.origin.checkpoint.digest, run.origin.checkpoint)
        known |= {one.digest: one for cycle in run.cycles if (one := cycle.checkpoint())}
    found = {}
    for digest, record in known.items():
        steps, at, seen = record.steps, record.init_digest, {digest}
        while at in known and at not in seen:
            seen.add(at)
            steps, at = steps + known[at].steps, known[at].init_digest
        found[digest] = steps
    return found


def _measured(run: RunFacts, steps: dict[str, int], episodes: list[JudgedEpisode]) -> RunFacts:
    cycles = []
    for cycle in run.cycles:
        checkpoint = cycle.checkpoint()
        total = steps[checkpoint.digest] if checkpoint else 0
        own = [one for one in episodes if one.cycle == cycle.index]
        whole = replace(cycle, steps=total)
        cycles.append(replace(whole, measured=_measurements(run, whole, own)))
    return replace(run, cycles=tuple(cycles))


def _measurements(
    run: RunFacts, cycle: CycleFacts, episodes: list[JudgedEpisode]
) -> dict[str, Measurement]:
    from lefleet.stages.contract import task_text

    evaluation, rung = cycle.evaluation(), run.rung(cycle)
    if evaluation is None or rung is None or not evaluation.result.per_task:
        return {}
    result = evaluation.result
    rates = {ALL: result.overall, **result.per_task}
    stages = ("collect", "train", "evaluate", "gate", "decision")
    found = {}
    for task, rate in rates.items():
        tasks = (task,) if task else tuple(result.per_task)
        own = [one for one in episodes if one.task in tasks]
        failed = [one.progress for one in own if not one.success]
        made = _made(run, cycle, tasks)
        text = task_text(task) if environment(run.config) == OWN_SIMULATION else task
        total = _episodes_of(cycle.dataset(), task, text, is_only=len(result.per_task) == 1)
        found[task] = Measurement(
            run=run.run,
            cycle=cycle.index,
            tasks=tasks,
            environment=environment(run.config),
            policy=rung.name,
            demonstrations=None if total is None else max(0, total - sum(made.values())),
            made=made,
            steps=cycle.steps,
            rate=rate,
            outcomes={(one.task, one.seed): one.success for one in own},
            failed_progress=sum(failed) / len(failed) if failed else None,
            films=tuple(_film(run.run, one) for one in own if one.video),
            events=tuple(cycle.events[name] for name in stages if name in cycle.events),
            decision=cycle.decision.decision if cycle.decision else "",
        )
    return found


def environment(config: RunConfig) -> str:
    """Where a run evaluates; results of different places are not compared."""
    flags = config.evaluate.env
    if not flags:
        return OWN_SIMULATION
    return " ".join(f"{name}={value}" for name, value in sorted(flags.items()))


def _film(run: str, episode: JudgedEpisode) -> FilmedEpisode:
    path = f"{run}/cycle_{episode.cycle}/evaluate/{episode.video}"
    return FilmedEpisode(episode.task, path, episode.success)


def _episodes_of(data: DatasetRecord | None, task: str, text: str, *, is_only: bool) -> int | None:
    """Episodes of a task in the data, under its name or the text that stands for it there."""
    if data is None:
        return None
    if task == ALL or is_only:
        return sum(data.tasks.values())
    counts = (data.tasks.get(words) for words in (task, text))
    return next((count for count in counts if count is not None), None)


def _made(run: RunFacts, cycle: CycleFacts, tasks: tuple[str, ...]) -> dict[str, int]:
    """What policies made in earlier cycles and this cycle's data contains, by method."""
    if cycle.collect is None:
        return {}
    parts = {PurePath(path).parts[-4:-1] for path in cycle.collect.add_to}
    found: dict[str, int] = {}
    for earlier in run.cycles:
        mix = earlier.mix()
        if mix and (run.run, f"cycle_{earlier.index}", "improve") in parts:
            added = sum(mix.added.get(task, 0) for task in tasks)
            found[mix.method] = found.get(mix.method, 0) + added
    return {method: count for method, count in found.items() if count}
