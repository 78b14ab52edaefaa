"""Trials in a CSV file, as people keep them in a spreadsheet.

Paired: columns trial, task, a, b. Unpaired: columns trial, policy, success, with policy a or b, in
the order in which the trials were run; the i-th of a is paired with the i-th of b, within each task
where there is a column task. Messages count lines as an editor does: the header is line 1.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from lefleet.errors import BadInput
from lefleet.records.fields import Metric
from lefleet.stages.verdict import PairOutcome
from lefleet.stats import match_trials, progress_of, success_of

_PAIRED = ("trial", "task", "a", "b")
_UNPAIRED = ("trial", "policy", "success")
_REMEDY = f"Use {', '.join(_PAIRED)} for pairs, or {', '.join(_UNPAIRED)} for single trials."
_ONE_TASK = "all"
_WORDS = {"true": 1.0, "false": 0.0}


class Row(NamedTuple):
    """One row of the file."""

    line: int
    """Where it begins; a value in quotes may span lines."""
    values: dict[str, str]


def read_csv(path: Path, metric: Metric) -> tuple[list[PairOutcome], list[str]]:
    """Pairs in the order of the file, and how they were made where the file does not say."""
    columns, rows = _read(path)
    is_paired = "policy" not in columns
    outcomes = _paired(rows, metric) if is_paired else _single(rows, metric)
    if not outcomes:
        raise BadInput(f"from: {path} has no trial below its header.", _REMEDY)
    matched = "The i-th trial of a was compared with the i-th of b, in the file's order."
    return outcomes, [] if is_paired else [matched]


def _read(path: Path) -> tuple[list[str], list[Row]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise BadInput(f"from: {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"from: {path} is not text in UTF-8.", "Save it as CSV UTF-8.") from error
    lines = list(_lines(text))
    columns = [name.strip() for name in lines[0][1]] if lines else []
    wanted = _UNPAIRED if "policy" in columns else _PAIRED
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BadInput(
            f"from: {path} has no column {', '.join(missing)}.",
            f"{_REMEDY} The first line names the columns.",
        )
    twice = [name for name in wanted if columns.count(name) > 1]
    if twice:
        raise BadInput(f"from: {path} has the column {twice[0]} twice.", "Leave one of them out.")
    return columns, [
        Row(line, _values(line, columns, values, wanted)) for line, values in lines[1:]
    ]


def _lines(text: str) -> Iterable[tuple[int, list[str]]]:
    """Header and rows, each with the line on which it begins; blank ones are left out."""
    header = text.lstrip().partition("\n")[0]
    # Spreadsheets write semicolons where a comma is the decimal point.
    delimiter = next((mark for mark in ",;\t" if mark in header), ",")
    reader = csv.reader(
        StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    begins = 1
    try:
        for values in reader:
            if any(value.strip() for value in values):
                yield begins, values
            begins = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(
            f"line {begins}: it is not a line of a CSV file: {error}.",
            "Close every quote, and write a quote inside of quotes twice.",
        ) from error


def _values(
    line: int, columns: list[str], found: list[str], wanted: Sequence[str]
) -> dict[str, str]:
    if len(found) > len(columns):
        raise BadInput(
            f"line {line}: it has {len(found)} values for {len(columns)} columns.",
            "Put values with a comma into quotes, and write 0.5 for a half.",
        )
    values = dict(zip(columns, (value.strip() for value in found), strict=False))
    for name in wanted:
        if not values.get(name):
            raise BadInput(
                f"line {line}, {name}: it is empty.", "Fill it in, or leave the line out."
            )
    return values


def _paired(rows: list[Row], metric: Metric) -> list[PairOutcome]:
    _require_new((row.line, row.values["task"], row.values["trial"]) for row in rows)
    outcomes = []
    for line, values in rows:
        a, b = (_value(values[name], line, name, metric) for name in ("a", "b"))
        outcomes.append(_outcome(values["task"], a, b))
    return outcomes


def _single(rows: list[Row], metric: Metric) -> list[PairOutcome]:
    """Pairs by order, within each task."""
    by_task: dict[str, list[tuple[int, str]]] = defaultdict(list)
    values: dict[int, float] = {}
    keys = []
    for line, row in rows:
        task, policy = row.get("task") or _ONE_TASK, row["policy"].lower()
        by_task[task].append((line, policy))
        values[line] = _value(row["success"], line, "success", metric)
        keys.append((line, policy if task == _ONE_TASK else f"{policy} in {task}", row["trial"]))
    _require_new(keys)
    return [
        _outcome(task, values[a], values[b])
        for task, trials in by_task.items()
        for a, b in match_trials(trials)
    ]


def _require_new(keys: Iterable[tuple[int, str, str]]) -> None:
    """Repeated trials would count as evidence twice; keys are line, of what, and trial."""
    seen: dict[tuple[str, str], int] = {}
    for line, of, trial in keys:
        first = seen.setdefault((of, trial), line)
        if first != line:
            raise BadInput(
                f"line {line}, trial: {trial} of {of} is already in line {first}.",
                "Every trial counts once; give repetitions numbers of their own.",
            )


def _outcome(task: str, a: float, b: float) -> PairOutcome:
    """Progress of 1 is a success."""
    return PairOutcome(task, a == 1.0, b == 1.0, a, b)


def _value(text: str, line: int, field: str, metric: Metric) -> float:
    """An outcome: 0 or 1, or for progress anything in between."""
    try:
        value = _WORDS[text.lower()] if text.lower() in _WORDS else float(text)
    except ValueError as error:
        raise BadInput(
            f"line {line}, {field}: {text} is not a number.",
            "Write 1 for a success and 0 for a failure.",
        ) from error
    if math.isnan(value):
        raise BadInput(f"line {line}, {field}: {text} is not an outcome.", "Leave the line out.")
    return (
        progress_of(value, line, field) if metric == "progress" else success_of(value, line, field)
    )
