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
from lefleet.stats import GateRule

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
        first = seen.setdefault((task, trial), number)
        if first != number:
            raise BadInput(
                f"row {number}, trial: {trial} of {task} is already in row {first}.",
                "Every trial counts once; give repetitions numbers of their own.",
            )
        a, b = (_value(row[name], number, name, metric) for name in ("a", "b"))
        outcomes.append(Outcome(task, a == 1.0, b == 1.0, a, b))
    return outcomes


def _single(rows: list[dict[str, str]], metric: Metric) -> list[Outcome]:
    """Pairs by order."""
    values: dict[str, list[tuple[int, float]]] = {"a": [], "b": []}
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, 1):
        policy, trial = row["policy"].strip().lower(), row["trial"].strip()
        if policy not in values:
            raise BadInput(
                f"row {number}, policy: must be a or b, got {row['policy']}.",
                "Call the policy that is judged a, and the other one b.",
            )
        first = seen.setdefault((policy, trial), number)
        if first != number:
            raise BadInput(
                f"row {number}, trial: {trial} of {policy} is already in row {first}.",
                "Every trial counts once; number them as they were run.",
            )
        values[policy].append((number, _value(row["success"], number, "success", metric)))
    fewer, more = sorted(values, key=lambda policy: len(values[policy]))
    if len(values[fewer]) < len(values[more]):
        alone, _ = values[more][len(values[fewer])]
        raise BadInput(
            f"row {alone}, policy: {more} has {len(values[more])} trials, {fewer} only "
            f"{len(values[fewer])}, so this one has no partner.",
            f"Run {fewer} as often as {more}, or leave the last ones out.",
        )
    pairs = zip(values["a"], values["b"], strict=True)
    return [Outcome("all", a == 1.0, b == 1.0, a, b) for (_, a), (_, b) in pairs]


def _value(text: str, row: int, field: str, metric: Metric) -> float:
    """An outcome: 0 or 1, or for progress anything in between."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if metric == "success" and value not in (0.0, 1.0):
        raise BadInput(
            f"row {row}, {field}: must be 0 or 1, got {text.strip()}.",
            "Write 1 for a success and 0 for a failure, or use --metric progress.",
        )
    if not 0.0 <= value <= 1.0:
        raise BadInput(
            f"row {row}, {field}: must lie between 0 and 1, got {text.strip()}.",
            "Scale progress to that range; 1 is a success.",
        )
    return value
