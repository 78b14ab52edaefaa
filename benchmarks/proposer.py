"""New demonstrations split by failure against as many for each task, at equal numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.arms import BASE, Gap, paired_gap
from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, say
from lefleet import EvaluateRequest, ExpertDemos, TrainRequest
from lefleet.loop.propose import TaskEvidence, split_by_failure, split_uniform
from lefleet.records import PolicyResult, ProposePlan, Rate, SeedBlock
from lefleet.stats import exact_interval

UNIFORM = "uniform split"
FAILURE = "split by failure"
ARMS = (UNIFORM, FAILURE)
ALL = "all"


class Size(NamedTuple):
    """How much of everything."""

    seeds: int
    base: int
    """Demonstrations of each task in the first cycle."""
    added: tuple[int, ...]
    """Demonstrations of each task that the uniform split adds in each later cycle."""
    steps: int
    """Of each cycle's training."""
    looked_at: int
    """Episodes of each task that a split by failure is made from."""
    judged: int
    """Episodes of each task that judge both arms."""


TASKS = ("peg-insert-side", "push", "door-open", "drawer-open")
FULL = Size(seeds=7, base=1, added=(3, 4), steps=800, looked_at=20, judged=50)
QUICK = Size(seeds=1, base=1, added=(2,), steps=20, looked_at=2, judged=2)


class SeedOutcome(NamedTuple):
    """What came of one seed."""

    splits: dict[str, list[dict[str, int]]]
    """New demonstrations by arm, later cycle and task."""
    results: dict[str, PolicyResult]
    """Of the first cycle, on the episodes that made the first split, and of each arm."""
    frames: dict[str, int]
    """That each arm was trained on in the end."""


def measure(workshop: Workshop) -> Section:
    size = QUICK if workshop.quick else FULL
    outcomes = []
    for seed in range(size.seeds):
        outcomes.append(_one_seed(workshop, size, seed))
        rates = {arm: f"{one.overall.rate:.0%}" for arm, one in outcomes[-1].results.items()}
        say(f"seed {seed}: {rates}, {_listed(outcomes[-1])}")
    return _section(size, outcomes)


def _one_seed(workshop: Workshop, size: Size, seed: int) -> SeedOutcome:
    """One common first cycle, then the later ones of each arm, as a run would do them."""
    first = 10_000 * seed
    demos = ExpertDemos(tasks=TASKS, episodes_per_task=size.base, seed=first)
    base, _ = workshop.stage(demos)
    start, _ = workshop.stage(_training(size, base, seed))
    known = _judge(workshop, start, size.looked_at, int(SeedBlock.EVALUATE) + first)
    outcome = SeedOutcome({}, {BASE: known}, {})
    for arm in ARMS:
        outcome.splits[arm] = []
        parts, checkpoint, result = [base / "dataset"], start, known
        for cycle, added in enumerate(size.added, 1):
            split = _split(arm, added * len(TASKS), result)
            # Arms share the seeds, and so as many demonstrations of each task as they can.
            more = ExpertDemos(
                tasks=TASKS,
                episodes=split,
                seed=first + 1000 * cycle,
                add_to=tuple(map(str, parts)),
            )
            data, dataset = workshop.stage(more)
            checkpoint, _ = workshop.stage(_training(size, data, seed, init=str(checkpoint)))
            is_last = cycle == len(size.added)
            result = (
                _judge(workshop, checkpoint, size.judged, int(SeedBlock.GATE) + first)
                if is_last
                else _judge(workshop, checkpoint, size.looked_at, int(SeedBlock.EVALUATE) + first)
            )
            parts.append(data / "dataset")
            outcome.splits[arm].append(split)
            outcome.frames[arm] = dataset.frames
        outcome.results[arm] = result
    return outcome


def _split(arm: str, total: int, known: PolicyResult) -> dict[str, int]:
    if arm == UNIFORM:
        return split_uniform(total, TASKS)
    evidence = [TaskEvidence(task, known.per_task[task]) for task in TASKS]
    return split_by_failure(total, evidence, ProposePlan().floor)


def _training(size: Size, data: Path, seed: int, init: str = "") -> TrainRequest:
    return TrainRequest(
        dataset=str(data), tasks=TASKS, init=init, steps=size.steps, seed=seed, log_every=10
    )


def _judge(workshop: Workshop, checkpoint: Path, episodes: int, seed: int) -> PolicyResult:
    request = EvaluateRequest(
        checkpoint=str(checkpoint),
        tasks=TASKS,
        episodes_per_task=episodes,
        videos_per_task=0,
        seed=seed,
    )
    result: PolicyResult = workshop.stage(request)[1].result
    return result


def _section(size: Size, outcomes: Sequence[SeedOutcome]) -> Section:
    gap = _gap(ALL, outcomes)
    frames = [fmean(one.frames[arm] for one in outcomes) for arm in ARMS]
    return Section(
        "new demonstrations split by failure, or as many for each task",
        (_by_task(outcomes), _by_seed(outcomes)),
        (
            _verdict(gap, len(outcomes)),
            f"Each seed: {size.base} demonstration of each task, {size.steps} training steps, and "
            f"{size.looked_at} episodes per task that the split by failure is made from. Then each "
            f"arm has {len(size.added)} further cycles: it adds "
            f"{' and then '.join(str(one * len(TASKS)) for one in size.added)} demonstrations, "
            f"trains {size.steps} more steps on all it has, and looks at {size.looked_at} episodes "
            f"per task again before the next. In the end {size.judged} episodes per task judge "
            "both, on the same seeds, from which no split was made. Differences are paired by "
            "seed, with a 95 % t interval over seeds; the exact intervals count episodes as "
            "independent, which episodes of one training are not. The sizes were fixed before any "
            "arm was run, by first cycles on other seeds. Equal numbers of episodes are not equal "
            f"numbers of frames: in the end there were {frames[0]:.0f} with the uniform split and "
            f"{frames[1]:.0f} with the split by failure, on average.",
        ),
    )


def _verdict(gap: Gap, seeds: int) -> str:
    if gap.low > 0:
        said = "The split by failure is better than the uniform split"
    elif gap.high < 0:
        said = "The split by failure is worse than the uniform split"
    else:
        said = "The split by failure is not shown to differ from the uniform split"
    return f"{said}: {gap} points of success over all tasks, {seeds} seeds."


def _by_task(outcomes: Sequence[SeedOutcome]) -> str:
    header = (
        "task",
        "new demonstrations, mean by failure (uniform)",
        "after the first cycle",
        UNIFORM,
        FAILURE,
        "points of difference",
    )
    rows = []
    for task in (*TASKS, ALL):
        added = [fmean(_added(one.splits[arm], task) for one in outcomes) for arm in ARMS]
        rates = [_pooled(arm, task, outcomes) for arm in (BASE, *ARMS)]
        rows.append((task, f"{added[1]:.1f} ({added[0]:.0f})", *rates, str(_gap(task, outcomes))))
    return table(header, rows)


def _by_seed(outcomes: Sequence[SeedOutcome]) -> str:
    tasks = ", ".join(TASKS)
    header = (
        f"seed: success in {tasks}",
        "after the first cycle",
        "new demonstrations by failure",
        UNIFORM,
        FAILURE,
        "points of difference, all tasks",
    )
    rows = [
        (
            str(seed),
            _percent(one.results[BASE]),
            _listed(one),
            *(_percent(one.results[arm]) for arm in ARMS),
            f"{100 * _difference(ALL, one):+.1f}",
        )
        for seed, one in enumerate(outcomes)
    ]
    return table(header, rows)


def _added(splits: Sequence[Mapping[str, int]], task: str) -> int:
    return sum(sum(one.values()) if task == ALL else one[task] for one in splits)


def _rate(result: PolicyResult, task: str) -> Rate:
    return result.overall if task == ALL else result.per_task[task]


def _difference(task: str, outcome: SeedOutcome) -> float:
    by_failure, uniform = (_rate(outcome.results[arm], task) for arm in (FAILURE, UNIFORM))
    return by_failure.rate - uniform.rate


def _gap(task: str, outcomes: Sequence[SeedOutcome]) -> Gap:
    return paired_gap([_difference(task, one) for one in outcomes])


def _pooled(arm: str, task: str, outcomes: Sequence[SeedOutcome]) -> str:
    rates = [_rate(one.results[arm], task) for one in outcomes]
    successes, episodes = sum(r.successes for r in rates), sum(r.episodes for r in rates)
    low, high = exact_interval(successes, episodes)
    return f"{successes}/{episodes} = {successes / episodes:.0%} ({low:.0%} to {high:.0%})"


def _percent(result: PolicyResult) -> str:
    each = "/".join(f"{100 * result.per_task[task].rate:.0f}" for task in TASKS)
    return f"{100 * result.overall.rate:.1f} ({each})"


def _listed(outcome: SeedOutcome) -> str:
    """What the split by failure came to in each cycle."""
    splits = outcome.splits[FAILURE]
    return ", ".join("/".join(str(count) for count in split.values()) for split in splits)
