"""Outcomes recorded elsewhere, for instance on a real robot: files to a verdict."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lefleet.errors import BadInput
from lefleet.records import CompareOptions, ComparisonRecord
from lefleet.records.fields import Metric
from lefleet.stages.eval_info import EVAL_INFO, read_eval_info
from lefleet.stages.outcomes_csv import read_csv
from lefleet.stages.verdict import (
    ComparisonSource,
    Judge,
    PairOutcome,
    comparison,
    without_futility,
)
from lefleet.stats import GateRule
from lefleet.stats.inputs import require_alpha

_FORMS = f"Give one CSV file with both policies, or two {EVAL_INFO} of lerobot-eval, A's first."


def compare_outcomes(
    paths: Sequence[Path], options: CompareOptions, *, same_seeds: bool = False
) -> ComparisonRecord:
    """The verdict about a over b. `max_pairs` are all that will ever be run; None: these."""
    require_alpha(options.alpha)
    files = [_file(path) for path in paths]
    if any(_is_eval_info(path) for path in files):
        outcomes, notes = _of_evaluations(files, options.metric, same_seeds=same_seeds)
        candidate_path, baseline_path = map(str, files)
        episodes_file = ""
    else:
        outcomes, notes = _of_csv(files, options.metric, same_seeds=same_seeds)
        candidate_path, baseline_path, episodes_file = "", "", str(files[0])
    judge = _judged(outcomes, options, " and ".join(map(str, paths)))
    if len({outcome.task for outcome in outcomes}) > 1:
        notes.append("The tasks were interleaved before they were judged.")
    if unused := len(outcomes) - len(judge.outcomes):
        notes.append(f"{unused} more pairs were not needed.")
    source = ComparisonSource(
        candidate="a",
        baseline="b",
        candidate_path=candidate_path,
        baseline_path=baseline_path,
        first_seed=0,
        episodes=2 * len(outcomes),
        episodes_file=episodes_file,
        note=" ".join(notes),
    )
    return comparison(judge, source)


def _file(path: Path) -> Path:
    """The file itself, where its folder is named."""
    if not path.exists():
        raise BadInput(f"from: {path} does not exist.", _FORMS)
    if not path.is_dir():
        return path
    if not (path / EVAL_INFO).is_file():
        raise BadInput(f"from: the folder {path} holds no {EVAL_INFO}.", _FORMS)
    return path / EVAL_INFO


def _is_eval_info(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _of_csv(
    files: Sequence[Path], metric: Metric, *, same_seeds: bool
) -> tuple[list[PairOutcome], list[str]]:
    if len(files) > 1:
        raise BadInput(f"from: {len(files)} files, none of them a .json.", _FORMS)
    if same_seeds:
        raise BadInput(
            "same_seeds: it has no effect with a CSV file.",
            "Leave it out; columns a and b already say that the trials are pairs.",
        )
    return read_csv(files[0], metric)


def _of_evaluations(
    files: Sequence[Path], metric: Metric, *, same_seeds: bool
) -> tuple[list[PairOutcome], list[str]]:
    """Episode i of one with episode i of the other, within each task."""
    other = [path for path in files if not _is_eval_info(path)]
    if other:
        raise BadInput(f"from: {other[0]} is not an {EVAL_INFO}, the other file is.", _FORMS)
    if len(files) != 2:
        raise BadInput(f"from: two {EVAL_INFO} are needed, got {len(files)}.", _FORMS)
    if files[0].resolve() == files[1].resolve():
        raise BadInput(f"from: {files[0]} is given twice.", "Give the files of two policies.")
    ours, theirs = (read_eval_info(path, metric) for path in files)
    for path, mine, others in ((files[0], ours, theirs), (files[1], theirs, ours)):
        if missing := [task for task in others if task not in mine]:
            raise BadInput(
                f"from: {path} has no task {', '.join(missing)}, the other file has.",
                "Evaluate both policies on the same tasks.",
            )
    for task, episodes in ours.items():
        if len(episodes) != len(theirs[task]):
            raise BadInput(
                f"from: episodes of {task}: {len(episodes)} in {files[0]}, {len(theirs[task])} in "
                f"{files[1]}.",
                "Evaluate both policies with the same --eval.n_episodes.",
            )
    outcomes = [
        PairOutcome(task, mine.success, other.success, mine.progress, other.progress)
        for task, episodes in ours.items()
        for mine, other in zip(episodes, theirs[task], strict=True)
    ]
    return outcomes, [_SAME_SEEDS if same_seeds else _SINGLE_TRIALS]


_SAME_SEEDS = (
    "Paired as --same-seeds says: episode i of a task began the same for both. The files do not "
    "contain the seeds, so this was not checked."
)
_SINGLE_TRIALS = (
    "Compared as single trials: episode i of A with episode i of B, within each task. (The files "
    "do not contain the seeds; --same-seeds says that both began the same.)"
)


def _judged(outcomes: Sequence[PairOutcome], options: CompareOptions, name: str) -> Judge:
    planned = options.max_pairs
    if planned is not None and planned < len(outcomes):
        raise BadInput(
            f"max_pairs: {name} has {len(outcomes)} pairs, more than {planned}.",
            f"Give --max-pairs {len(outcomes)} or more, or leave it out.",
        )
    rule = GateRule(
        alpha_better=options.alpha,
        alpha_worse=options.alpha,
        max_pairs=planned or len(outcomes),
        metric=options.metric,
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
    return judge


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
