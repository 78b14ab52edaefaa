"""Outcomes recorded elsewhere, for instance on a real robot: a CSV file to a verdict.

Paired: columns trial, task, a, b. Unpaired: columns trial, policy, success, with policy a or b, in
the order in which the trials were run; the i-th of a is paired with the i-th of b, within each task
where there is a column task.
"""

import csv
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lefleet.errors import BadInput
from lefleet.records import CompareOptions, ComparisonRecord
from lefleet.records.fields import Metric
from lefleet.stages.verdict import (
    ComparisonSource,
    Judge,
    PairOutcome,
    comparison,
    without_futility,
)
from lefleet.stats import GateRule, match_trials, progress_of, success_of
from lefleet.stats.inputs import require_alpha

_PAIRED = ("trial", "task", "a", "b")
_UNPAIRED = ("trial", "policy", "success")
_REMEDY = f"Use {', '.join(_PAIRED)} for pairs, or {', '.join(_UNPAIRED)} for single trials."
_ONE_TASK = "all"


class Row(NamedTuple):
    """One row of the file."""

    number: int
    """From 1, below the header."""
    values: dict[str, str]


def compare_outcomes(path: Path, options: CompareOptions) -> ComparisonRecord:
    """The verdict about a over b. `max_pairs` are all that will ever be run; None: these."""
    require_alpha(options.alpha)
    metric, planned = options.metric, options.max_pairs
    columns, rows = _read(path)
    unpaired = "policy" in columns
    outcomes = _single(rows, metric) if unpaired else _paired(rows, metric)
    if not outcomes:
        raise BadInput(f"from: {path} has no pair in it.", _REMEDY)
    if planned is not None and planned < len(outcomes):
        raise BadInput(
            f"max_pairs: {path} has {len(outcomes)} pairs, more than {planned}.",
            f"Give --max-pairs {len(outcomes)} or more, or leave it out.",
        )
    rule = GateRule(
        alpha_better=options.alpha,
        alpha_worse=options.alpha,
        max_pairs=planned or len(outcomes),
        metric=metric,
        min_effect=options.min_effect,
    )
    counts = Counter(outcome.task for outcome in outcomes)
    if planned is not None:
        # How the pairs to come share out among the tasks is not known; each may get them all.
        counts = Counter({task: count + planned - len(outcomes) for task, count in counts.items()})
    judge = Judge(without_futility(rule), counts, options.scope)
    for outcome in interleaved(outcomes):
        if not judge.decided:
            judge.observe(outcome)
    source = ComparisonSource(
        candidate="a",
        baseline="b",
        candidate_path="",
        baseline_path="",
        first_seed=0,
        episodes=2 * len(outcomes),
        episodes_file=str(path),
        note=_note(len(outcomes) - len(judge.outcomes), len(counts), unpaired=unpaired),
    )
    return comparison(judge, source)


def interleaved(outcomes: Sequence[PairOutcome]) -> list[PairOutcome]:
    """Every beginning has the tasks in the shares of the whole; outcomes play no part in it.

    A file that lists one task after the other would otherwise be judged by its first task.
    """
    counts = Counter(outcome.task for outcome in outcomes)
    chance = random.Random(len(outcomes))
    seen: Counter[str] = Counter()
    places = []
    for outcome in outcomes:
        places.append((seen[outcome.task] + chance.random()) / counts[outcome.task])
        seen[outcome.task] += 1
    if len(counts) == 1:
        return list(outcomes)
    in_order = sorted(range(len(outcomes)), key=places.__getitem__)
    return [outcomes[index] for index in in_order]


def _note(unused: int, tasks: int, *, unpaired: bool) -> str:
    notes = []
    if unpaired:
        notes.append("The i-th trial of a was compared with the i-th of b, in the file's order.")
    if tasks > 1:
        notes.append("The tasks were interleaved before they were judged.")
    if unused:
        notes.append(f"{unused} more pairs in the file were not needed.")
    return " ".join(notes)


def _read(path: Path) -> tuple[list[str], list[Row]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            columns = [name.strip() for name in next(reader, [])]
            lines = [(number, line) for number, line in enumerate(reader, 1) if any(line)]
    except OSError as error:
        raise BadInput(f"from: {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"from: {path} is not a CSV file: {error}.", _REMEDY) from error
    wanted = _UNPAIRED if "policy" in columns else _PAIRED
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BadInput(
            f"from: {path} has no column {', '.join(missing)}.",
            f"{_REMEDY} Columns are separated by commas.",
        )
    twice = [name for name in wanted if columns.count(name) > 1]
    if twice:
        raise BadInput(f"from: {path} has the column {twice[0]} twice.", "Leave one of them out.")
    return columns, [Row(number, _values(number, columns, line, wanted)) for number, line in lines]


def _values(
    number: int, columns: list[str], line: list[str], wanted: Sequence[str]
) -> dict[str, str]:
    if len(line) > len(columns):
        raise BadInput(
            f"row {number}: it has {len(line)} values for {len(columns)} columns.",
            "Put values with a comma into quotes, and write 0.5 for a half.",
        )
    values = dict(zip(columns, (value.strip() for value in line), strict=False))
    for name in wanted:
        if not values.get(name):
            raise BadInput(
                f"row {number}, {name}: it is empty.", "Fill it in, or leave the row out."
            )
    return values


def _paired(rows: list[Row], metric: Metric) -> list[PairOutcome]:
    _require_new((row.number, row.values["task"], row.values["trial"]) for row in rows)
    outcomes = []
    for number, values in rows:
        a, b = (_value(values[name], number, name, metric) for name in ("a", "b"))
        outcomes.append(_outcome(values["task"], a, b))
    return outcomes


def _single(rows: list[Row], metric: Metric) -> list[PairOutcome]:
    """Pairs by order, within each task."""
    by_task: dict[str, list[tuple[int, str]]] = defaultdict(list)
    values: dict[int, float] = {}
    keys = []
    for number, row in rows:
        task, policy = row.get("task") or _ONE_TASK, row["policy"].lower()
        by_task[task].append((number, policy))
        values[number] = _value(row["success"], number, "success", metric)
        keys.append((number, policy if task == _ONE_TASK else f"{policy} in {task}", row["trial"]))
    _require_new(keys)
    return [
        _outcome(task, values[a], values[b])
        for task, trials in by_task.items()
        for a, b in match_trials(trials)
    ]


def _require_new(keys: Iterable[tuple[int, str, str]]) -> None:
    """Repeated trials would count as evidence twice; keys are row, of what, and trial."""
    seen: dict[tuple[str, str], int] = {}
    for row, of, trial in keys:
        first = seen.setdefault((of, trial), row)
        if first != row:
            raise BadInput(
                f"row {row}, trial: {trial} of {of} is already in row {first}.",
                "Every trial counts once; give repetitions numbers of their own.",
            )


def _outcome(task: str, a: float, b: float) -> PairOutcome:
    """Progress of 1 is a success."""
    return PairOutcome(task, a == 1.0, b == 1.0, a, b)


def _value(text: str, row: int, field: str, metric: Metric) -> float:
    """An outcome: 0 or 1, or for progress anything in between."""
    try:
        value = float(text)
    except ValueError as error:
        raise BadInput(
            f"row {row}, {field}: {text} is not a number.",
            "Write 1 for a success and 0 for a failure.",
        ) from error
    if math.isnan(value):
        raise BadInput(f"row {row}, {field}: {text} is not an outcome.", "Leave the row out.")
    return progress_of(value, row, field) if metric == "progress" else success_of(value, row, field)
