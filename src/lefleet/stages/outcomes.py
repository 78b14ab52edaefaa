"""Outcomes that somebody else recorded, for instance on a real robot: a CSV file to a verdict.

Paired: columns trial, task, a, b. Unpaired: columns trial, policy, success, with policy a or b, in
the order in which the trials were run; the i-th of a is paired with the i-th of b.
"""

import csv
import math
from collections import Counter
from pathlib import Path

from lefleet.errors import BadInput
from lefleet.records import ComparisonRecord
from lefleet.records.compare import Metric, Scope
from lefleet.stages.verdict import Judge, Outcome, Subject, comparison, without_futility
from lefleet.stats import GateRule, match_trials, progress_of, success_of

_PAIRED = ("trial", "task", "a", "b")
_UNPAIRED = ("trial", "policy", "success")
_REMEDY = f"Use {', '.join(_PAIRED)} for pairs, or {', '.join(_UNPAIRED)} for single trials."


def compare_outcomes(
    path: Path, *, alpha: float, metric: Metric, scope: Scope, min_effect: float
) -> ComparisonRecord:
    """The verdict about a over b; every row that the file has may be used."""
    columns, rows = _read(path)
    unpaired = "policy" in columns
    outcomes = _single(rows, metric) if unpaired else _paired(rows, metric)
    if not outcomes:
        raise BadInput(f"{path}: there is no pair in it.", _REMEDY)
    rule = GateRule(alpha=alpha, max_pairs=len(outcomes), metric=metric)
    judge = Judge(without_futility(rule), Counter(outcome.task for outcome in outcomes))
    for outcome in outcomes:
        if not judge.decided:
            judge.observe(outcome)
    by_order = "The i-th trial of a was compared with the i-th of b, in the order of the file."
    subject = Subject(
        candidate="a",
        baseline="b",
        candidate_path="",
        baseline_path="",
        first_seed=0,
        episodes=len(rows) if unpaired else 2 * len(rows),
        episodes_file=str(path),
        note=by_order if unpaired else "",
    )
    return comparison(judge, subject, scope, min_effect)


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True, strict=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            rows = list(reader)
    except OSError as error:
        raise BadInput(f"from: {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"from: {path} is not a CSV file: {error}.", _REMEDY) from error
    wanted = _UNPAIRED if "policy" in columns else _PAIRED
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BadInput(f"from: {path} has no column {', '.join(missing)}.", _REMEDY)
    for number, row in enumerate(rows, 1):
        for name in wanted:
            if not (row[name] or "").strip():
                raise BadInput(
                    f"row {number}, {name}: it is empty.", "Fill it in, or leave the row out."
                )
    return columns, rows


def _paired(rows: list[dict[str, str]], metric: Metric) -> list[Outcome]:
    seen: dict[tuple[str, str], int] = {}
    outcomes = []
    for number, row in enumerate(rows, 1):
        task, trial = row["task"].strip(), row["trial"].strip()
        _require_new(seen, task, trial, number)
        a, b = (_value(row[name], number, name, metric) for name in ("a", "b"))
        outcomes.append(_outcome(task, a, b))
    return outcomes


def _single(rows: list[dict[str, str]], metric: Metric) -> list[Outcome]:
    """Pairs by order."""
    policies = [row["policy"].strip().lower() for row in rows]
    matched = match_trials(policies)
    values = []
    seen: dict[tuple[str, str], int] = {}
    for number, (policy, row) in enumerate(zip(policies, rows, strict=True), 1):
        _require_new(seen, policy, row["trial"].strip(), number)
        values.append(_value(row["success"], number, "success", metric))
    return [_outcome("all", values[a - 1], values[b - 1]) for a, b in matched]


def _require_new(seen: dict[tuple[str, str], int], of: str, trial: str, row: int) -> None:
    """Repeated trials would count as evidence twice."""
    first = seen.setdefault((of, trial), row)
    if first != row:
        raise BadInput(
            f"row {row}, trial: {trial} of {of} is already in row {first}.",
            "Every trial counts once; give repetitions numbers of their own.",
        )


def _outcome(task: str, a: float, b: float) -> Outcome:
    """Progress of 1 is a success."""
    return Outcome(task, a == 1.0, b == 1.0, a, b)


def _value(text: str, row: int, field: str, metric: Metric) -> float:
    """An outcome: 0 or 1, or for progress anything in between."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return progress_of(value, row, field) if metric == "progress" else success_of(value, row, field)
