"""One cycle: why its candidate was promoted or not, with the evidence against its bounds; its
stages and their logs, its data and its training."""

import os
import shlex
from collections.abc import Iterator
from itertools import chain
from math import exp, log10
from pathlib import Path
from typing import Literal

from lefleet.errors import BadInput, Unknown
from lefleet.loop.requests import stage_folder
from lefleet.loop.state import CycleState, RunState
from lefleet.queries.comparison import ROLES, flags_to_settle, needed, remarks, sentence
from lefleet.queries.run import CheckpointLineage, TrainingCurve, curve, lineage
from lefleet.queries.running_gate import comparison_so_far
from lefleet.queries.runs import RunReader
from lefleet.queries.status import CycleStatus
from lefleet.queries.trouble import tail
from lefleet.records import CompareRequest, ComparisonRecord, GateResult, RunConfig, TaskPairs
from lefleet.records.border import Strict
from lefleet.stages.evidence_plot import lead_bounds
from lefleet.stages.folder import LOG

_LONGEST_NAME = 255
"""Bytes of a file's name; systems take a longer one for a mistake."""
_SMALLEST = 1e-300
_LARGEST_LOG = 690.0
"""Of numbers that JSON and charts can hold."""
STAGES = ("propose", "collect", "train", "evaluate", "gate", "improve")


class EvidencePath(Strict, frozen=True, kw_only=True):
    """What decides, look by look: it crosses `better` or `worse`, or the gate gives up."""

    metric: Literal["success", "progress"]
    pairs: tuple[int, ...]
    value: tuple[float, ...]
    """Success: pairs won minus lost. Progress: the logarithm (base 10) of the largest e-value for
    better."""
    better: tuple[float, ...]
    """From here on up it is better."""
    worse: tuple[float, ...]
    """From here on down it is worse. Progress: from here on up, of `value_worse`."""
    value_worse: tuple[float, ...]
    """Progress: as `value`, for worse. Success: empty."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    """The 95 % confidence sequence of the difference."""
    e_value: tuple[float, ...]
    """For better."""
    max_pairs: int


class StageLine(Strict, frozen=True, kw_only=True):
    """One stage of a cycle."""

    stage: str
    state: str
    """Of its last attempt: running, committed, failed, killed, gone, cancelled or skipped."""
    attempts: int
    seconds: float | None
    """Of all attempts; None while it runs."""
    waited_s: float
    """For room on a cluster, in all attempts; not part of `seconds`."""
    error: str


class CycleDetail(Strict, frozen=True, kw_only=True):
    """One cycle."""

    run: str
    cycles: int
    """Of the run, so far."""
    status: CycleStatus
    verdict: str
    """The gate in one sentence; empty where there was none."""
    remarks: tuple[str, ...]
    """What else the comparison says, for those who want to know."""
    needed: str
    """About how many more pairs an undecided gate may need; empty for a decided one."""
    settle: str
    """The command that runs as many; empty where there is none."""
    gate: GateResult | None
    """Also of a cycle that waits for its decision. Of a gate that has not ended, what it has found
    so far: then it `ended` open."""
    waits_for: int | None
    """Number of the question about this cycle that nobody has answered yet."""
    baseline: str
    """Digest of what the candidate was compared with; empty without a gate."""
    baseline_cycle: int | None
    evidence: EvidencePath | None
    per_task: dict[str, TaskPairs]
    stages: tuple[StageLine, ...]
    training: TrainingCurve | None
    lineage: CheckpointLineage | None


class StageLog(Strict, frozen=True, kw_only=True):
    """The end of a stage's log."""

    file: str
    """Relative to the work folder."""
    lines: tuple[str, ...]


def cycle_detail(reader: RunReader, run: str, cycle: int) -> CycleDetail:
    """One cycle; Unknown where the run has none of this number."""
    facts = reader.facts(run)
    known = {one.index: one for one in facts.status.cycles}
    if facts.state is None or cycle not in known:
        numbers = ", ".join(map(str, known)) or "none yet"
        raise Unknown(f"cycle: {run} has no cycle {cycle}.", f"It has: {numbers}.")
    state = facts.state.cycles[cycle]
    record, made = state.gate() or _gate_so_far(reader, facts.state, run, cycle), state.checkpoint()
    asked = facts.status.open_approval()
    return CycleDetail(
        run=run,
        cycles=len(known),
        status=known[cycle],
        verdict=sentence(record, ROLES) if record else "",
        remarks=tuple(remarks(record, ROLES)) if record else (),
        needed=" ".join(needed(record, ROLES)) if record else "",
        settle=_settle(facts.state, run, cycle, record) if record else "",
        gate=record.gate if record else None,
        waits_for=asked.id if asked and asked.cycle == cycle else None,
        baseline=record.baseline if record else "",
        baseline_cycle=_cycle_of(facts.state, record.baseline) if record else None,
        evidence=evidence(record) if record and record.looks else None,
        per_task=dict(record.per_task) if record else {},
        stages=_stages(facts.state, state),
        training=curve(cycle, made) if made else None,
        lineage=lineage(reader, made.digest, run) if made else None,
    )


def require_begun(reader: RunReader, run: str, cycle: int) -> None:
    """Raise Unknown where the run has not come to this cycle. Of one that cannot be read, it is not
    known how far it came."""
    state = reader.facts(run).state
    if cycle < 0 or (state is not None and cycle >= len(state.cycles)):
        last = len(state.cycles) - 1 if state is not None else 0
        raise Unknown(f"cycle: {run} has not begun a cycle {cycle}.", f"Its last one is {last}.")


def stage_log(reader: RunReader, run: str, cycle: int, stage: str, lines: int = 100) -> StageLog:
    """The last lines that a stage and its processes printed; none before it has begun. Unknown
    where the run has no such cycle, or no cycle has such a stage."""
    require_begun(reader, run, cycle)
    if stage not in STAGES:
        raise Unknown(f"stage: there is no stage {stage}.", f"Name one of {', '.join(STAGES)}.")
    if not 1 <= lines <= 1000:
        raise BadInput(f"lines: {lines}.", "Ask for 1 to 1000.")
    file = stage_folder(reader.workdir / run, cycle, stage) / LOG
    return StageLog(file=str(file.relative_to(reader.workdir)), lines=tail(file, lines))


def evidence(record: ComparisonRecord) -> EvidencePath:
    """The path of a comparison, with the bounds at each of its looks."""
    gate, looks = record.gate, record.looks
    if record.metric == "success":
        value = [float(look.wins - look.losses) for look in looks]
        better = [float(one) for one in lead_bounds(looks, gate.alpha_better, gate.max_pairs)]
        worse = [-float(one) for one in lead_bounds(looks, gate.alpha_worse, gate.max_pairs)]
        value_worse: list[float] = []
    else:
        value = [-log10(max(_SMALLEST, look.p_value)) for look in looks]
        value_worse = [-log10(max(_SMALLEST, look.p_worse)) for look in looks]
        better = [-log10(gate.alpha_better)] * len(looks)
        worse = [-log10(gate.alpha_worse)] * len(looks)
    return EvidencePath(
        metric=record.metric,
        pairs=tuple(look.pairs for look in looks),
        value=tuple(value),
        better=tuple(better),
        worse=tuple(worse),
        value_worse=tuple(value_worse),
        low=tuple(look.interval[0] for look in looks),
        high=tuple(look.interval[1] for look in looks),
        e_value=tuple(exp(min(_LARGEST_LOG, look.log_e)) for look in looks),
        max_pairs=gate.max_pairs,
    )


def _gate_so_far(
    reader: RunReader, state: RunState, run: str, cycle: int
) -> ComparisonRecord | None:
    """Of a gate that is running, or was interrupted."""
    made = [one for one in state.attempts if (one.cycle, one.stage) == (cycle, "gate")]
    if not made or made[-1].state in ("committed", "skipped"):
        return None
    request = made[-1].request
    if not isinstance(request, CompareRequest):
        return None
    return comparison_so_far(stage_folder(reader.workdir / run, cycle, "gate"), request)


def _settle(state: RunState, run: str, cycle: int, record: ComparisonRecord) -> str:
    baseline, flags = _cycle_of(state, record.baseline), flags_to_settle(record)
    if baseline is None or record.gate.ended == "open" or not flags:
        return ""
    question = (f"{run}:{cycle}", f"{run}:{baseline}", *same_question(state.config))
    return f"lefleet compare {shlex.join(question)} {flags}"


def same_question(config: RunConfig) -> Iterator[str]:
    """Flags of `lefleet compare` that ask what the gates of a run ask."""
    env, gate = config.evaluate.env, config.gate
    if env:
        yield from ("--env", *chain.from_iterable(env.items()))
    else:
        yield from ("--tasks", *config.tasks)
    for flag, value, default in (
        ("--initial-states", config.evaluate.initial_states, 0),
        ("--metric", gate.metric, "success"),
        ("--scope", gate.scope, "pooled"),
        ("--device", config.device, "cpu"),
    ):
        if value != default:
            yield from (flag, str(value))


def _cycle_of(state: RunState, digest: str) -> int | None:
    """The cycle of this run that made a checkpoint; None where another run did."""
    made = [(one.index, record.digest) for one in state.cycles if (record := one.checkpoint())]
    return next((index for index, one in made if one == digest), None)


def _stages(state: RunState, cycle: CycleState) -> tuple[StageLine, ...]:
    lines = []
    for stage in STAGES:
        made = [one for one in state.attempts if (one.cycle, one.stage) == (cycle.index, stage)]
        if not made:
            continue
        is_over = made[-1].state != "running"
        spent = sum(one.worked_s() for one in made)
        lines.append(
            StageLine(
                stage=stage,
                state=made[-1].state,
                attempts=len(made),
                seconds=spent if is_over else None,
                waited_s=sum(one.waited_s for one in made),
                error=made[-1].error,
            )
        )
    return tuple(lines)


def run_media(reader: RunReader, run: str, cycle: int, stage: str, name: str) -> Path:
    """A film of a stage, by its name alone; Unknown where there is none."""
    reader.facts(run)
    kinds = {"evaluate": "videos", "gate": "films"}
    folder = stage_folder(reader.workdir / run, cycle, stage) / kinds.get(stage, "")
    file = folder / name
    is_plain = stage in kinds and Path(name).name == name and name.endswith(".mp4")
    is_plain = is_plain and len(os.fsencode(name)) <= _LONGEST_NAME
    if not is_plain or not file.is_file() or file.resolve().parent != folder.resolve():
        raise Unknown(
            f"film: there is no film {name} of {stage} in cycle {cycle} of {run}.",
            f"Those that there are: /runs/{run}/cycles/{cycle}",
        )
    return file
