"""Findings in the order of likelihood, the remarks of a decision, and diagnosis.md."""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import msgspec

from lefleet.durable import write_durably
from lefleet.ledger import Ledger, RunRow
from lefleet.loop.diagnosis.judges import coverage, horizon, loss
from lefleet.loop.diagnosis.measurements import Measurements, measure
from lefleet.loop.diagnosis.ranges import action_range, normalisation
from lefleet.loop.requests import first_seed, stage_folder
from lefleet.loop.state import CycleState, RunState, read_state
from lefleet.records import (
    EpisodeRecord,
    EvaluationRecord,
    ExpertGrowth,
    PolicyResult,
    RunConfig,
    Rung,
    SeedBlock,
)
from lefleet.records.diagnosis import Aspect, DiagnosisFinding

PAGE = "diagnosis.md"
_ORDER = {"suspicious": 0, "unknown": 1, "ok": 2}


def diagnose(state: RunState, cycle: CycleState) -> tuple[str, ...]:
    """Remarks for a decision, the most likely cause first: a line for each aspect that is not in
    order, and where all are for each of them."""
    first: dict[Aspect, DiagnosisFinding] = {}
    for finding in diagnosis_findings(state, cycle):
        first.setdefault(finding.aspect, finding)
    doubtful = [one for one in first.values() if one.verdict != "ok"]
    return tuple(f"{one.aspect}: {one.measured}" for one in doubtful or first.values())


def diagnosis_findings(state: RunState, cycle: CycleState) -> tuple[DiagnosisFinding, ...]:
    """All findings about a cycle, the most likely cause first, at least one for each aspect; none
    where it was not evaluated."""
    measured = measure(state, cycle)
    return judge(measured) if measured else ()


def judge(measured: Measurements) -> tuple[DiagnosisFinding, ...]:
    """Findings about every aspect, the most likely cause first."""
    judges = (coverage, loss, action_range, horizon, normalisation)
    found = [finding for one in judges for finding in one(measured)]
    aspects = get_args(Aspect)
    return tuple(
        sorted(found, key=lambda f: (_ORDER[f.verdict], -f.weight, aspects.index(f.aspect)))
    )


def write_diagnosis(ledger: Ledger, row: RunRow, folder: Path) -> Path | None:
    """Write diagnosis.md into the folder of a run that ends with nothing blessed; its path.

    None where a checkpoint is blessed, or none was evaluated; a page from before is then removed.
    """
    state, path = read_state(ledger, row), folder / PAGE
    evaluated = [cycle for cycle in state.cycles if cycle.evaluation() is not None]
    if state.blessed() is not None or not evaluated:
        path.unlink(missing_ok=True)
        return None
    found = diagnosis_findings(state, evaluated[-1])
    lines = page_lines(state, evaluated, found, folder)
    write_durably(path, ("\n".join(lines) + "\n").encode())
    return path


def page_lines(
    state: RunState,
    evaluated: Sequence[CycleState],
    found: Sequence[DiagnosisFinding],
    folder: Path,
) -> Iterator[str]:
    """The page about the last of the `evaluated` cycles."""
    last = evaluated[-1]
    yield f"# {state.config.name}: why does nothing work?"
    yield ""
    yield _summary(state, evaluated, found)
    yield ""
    yield f"## What was looked at in cycle {last.index}"
    yield ""
    rows = ((one.aspect, one.verdict, one.measured, one.remedy) for one in found)
    yield from _table(("aspect", "verdict", "measured", "what to do"), rows)
    yield ""
    yield "## How it went"
    yield ""
    header = (
        "cycle",
        "demonstrations",
        "steps",
        "loss",
        "success",
        "progress",
        "steps per episode",
    )
    yield from _table(header, (_cycle_row(cycle) for cycle in evaluated))
    yield ""
    yield f"## Tasks in cycle {last.index}"
    yield ""
    yield from _table(("task", "success", "progress"), _task_rows(last, folder))
    yield ""
    yield "## What to do next"
    yield ""
    yield from _next(state, last, found, folder)


def _summary(
    state: RunState, evaluated: Sequence[CycleState], found: Sequence[DiagnosisFinding]
) -> str:
    result = _result(evaluated[-1])
    floor = state.config.decide.baseline_floor
    happened = (
        f"No episode of {result.overall.episodes} succeeded in cycle {evaluated[-1].index}"
        if not result.overall.successes
        else f"{result.overall.rate:.0%} of {result.overall.episodes} episodes succeeded in cycle "
        f"{evaluated[-1].index}, and a baseline needs more than {floor:.0%}"
    )
    happened += f"; on average they made {result.mean_progress:.0%} of the way."
    causes = [one for one in found if one.verdict == "suspicious"]
    if not causes:
        return (
            f"{happened} Nothing that was looked at is suspicious. Watch the films, then give the "
            "run more demonstrations and more training before you try a bigger policy."
        )
    first, others = causes[0], list(dict.fromkeys(one.aspect for one in causes[1:]))
    also = [aspect for aspect in others if aspect != first.aspect]
    more = f" Also suspicious: {', '.join(also)}." if also else ""
    rung = state.config.ladder[state.rung()].name
    return (
        f"{happened} Most likely cause: **{first.aspect}**: {_cell(first.measured)}. "
        f"{first.remedy}{more} The run stayed on the rung {rung}: a bigger policy does not mend "
        "this."
    )


def _cycle_row(cycle: CycleState) -> tuple[str, ...]:
    dataset, checkpoint, result = cycle.dataset(), cycle.checkpoint(), _result(cycle)
    losses = [point.loss for point in checkpoint.curve if point.loss] if checkpoint else []
    return (
        str(cycle.index),
        str(len(dataset.episodes)) if dataset else "",
        str(checkpoint.steps) if checkpoint else "",
        " → ".join(f"{one:.3g}" for one in dict.fromkeys((losses[0], losses[-1])))
        if losses
        else "",
        f"{result.overall.rate:.0%}",
        f"{result.mean_progress:.2f}",
        f"{result.mean_length:.0f}" if result.mean_length else "",
    )


def _task_rows(cycle: CycleState, folder: Path) -> Iterator[tuple[str, ...]]:
    progress = _progress(cycle, folder)
    for task, rate in _result(cycle).per_task.items():
        mean = f"{fmean(progress[task]):.2f}" if progress[task] else ""
        yield task, f"{rate.successes} of {rate.episodes}", mean


def _progress(cycle: CycleState, folder: Path) -> defaultdict[str, list[float]]:
    """By task; what cannot be read is left out."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    evaluation = _evaluation(cycle)
    file = stage_folder(folder, cycle.index, "evaluate") / evaluation.episodes_file
    try:
        for line in file.read_bytes().splitlines():
            episode = msgspec.json.decode(line, type=EpisodeRecord)
            found[episode.task].append(episode.progress)
    except (OSError, msgspec.MsgspecError):
        found.clear()
    return found


def _next(
    state: RunState, cycle: CycleState, found: Sequence[DiagnosisFinding], folder: Path
) -> Iterator[str]:
    """Commands to copy, after what to look at."""
    config = state.config
    films = stage_folder(folder, cycle.index, "evaluate") / "videos"
    number = 1
    if films.is_dir():
        yield f"{number}. Watch what the policy does: `{films}`"
        number += 1
    if isinstance(config.collect, ExpertGrowth):
        yield (
            f"{number}. Does it succeed where it was trained? Then it needs more demonstrations; "
            "if not, more training, or other settings:"
        )
        yield from _code(_on_training_seeds(config, cycle, folder.parent))
        number += 1
    if command := _new_run(config, state.rung(), found):
        yield f"{number}. Try the remedy in a new run; FILE is the config of this one:"
        yield from _code(command)


def _on_training_seeds(config: RunConfig, cycle: CycleState, workdir: Path) -> str:
    seed = first_seed(SeedBlock.COLLECT, config.seed, 0)
    words = (
        f"lefleet eval --checkpoint {config.name}:{cycle.index}",
        f"--workdir {shlex.quote(str(workdir))}",
        f"--tasks {' '.join(map(shlex.quote, config.tasks))} --episodes-per-task 5 --seed {seed}",
        f"--out {shlex.quote(str(workdir / config.name / 'on_training_seeds'))}",
    )
    return " ".join(words)


def _new_run(config: RunConfig, rung: int, found: Sequence[DiagnosisFinding]) -> str:
    """With the settings of the most likely cause that has some; empty where none has."""
    causes = [one.settings for one in found if one.verdict == "suspicious" and one.settings]
    settings = next((one for one in causes if _applies(one, config)), None)
    if settings is None:
        return ""
    flags = [
        f"--{name}={value}" for name, value in settings.items() if not name.startswith("rung.")
    ]
    if len(flags) < len(settings):
        ladder = [_fields(one) for one in config.ladder]
        for name, value in settings.items():
            _set(ladder[rung], name.removeprefix("rung."), value)
        flags.append(f"--ladder={json.dumps(ladder)}")
    return f"lefleet run -c FILE --name=NEW {' '.join(map(shlex.quote, flags))}"


def _applies(settings: dict[str, str], config: RunConfig) -> bool:
    """Whether this config has the field."""
    has_schedule = isinstance(config.collect.episodes_per_task, tuple)
    fields = {
        "collect.episodes_per_task": has_schedule,
        "evaluate.env.episode_length": bool(config.evaluate.env),
    }
    return all(fields.get(name, True) for name in settings)


def _fields(rung: Rung) -> dict[str, Any]:
    """What a rung has beyond the defaults."""
    every, defaults = msgspec.to_builtins(rung), msgspec.to_builtins(Rung(name=""))
    return {name: value for name, value in every.items() if value != defaults[name]}


def _set(rung: dict[str, Any], name: str, value: str) -> None:
    section, _, key = name.rpartition(".")
    if section:
        rung.setdefault(section, {})[key] = value
    else:
        rung[key] = json.loads(value)


def _table(header: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Names come from datasets, and must not break a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _code(command: str) -> Iterator[str]:
    yield from ("", "   ```sh", f"   {command}", "   ```", "")


def _evaluation(cycle: CycleState) -> EvaluationRecord:
    evaluation = cycle.evaluation()
    if evaluation is None:
        raise ValueError("only a cycle that was evaluated is diagnosed")
    return evaluation


def _result(cycle: CycleState) -> PolicyResult:
    return _evaluation(cycle).result
