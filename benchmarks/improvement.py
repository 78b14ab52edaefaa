"""More demonstrations against harvest against correct, at equal numbers of added episodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.arms import BASE, Outcome, arms_table, list_counts, verdicts
from benchmarks.report import Section
from benchmarks.workshop import EASY3, Workshop, say
from lefleet import (
    DatasetRecord,
    EvaluateRequest,
    ExpertDemos,
    ImproveRequest,
    TrainRequest,
)
from lefleet.records import Rate, SeedBlock
from lefleet.sim.tasks import BY_INSTRUCTION

DEMOS = "more demonstrations"
HARVEST = "harvest"
CORRECT = "correct"


class Size(NamedTuple):
    """How much of everything."""

    tasks: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: int
    base: int
    """Demonstrations per task to start with."""
    added: int
    """Episodes per task to add, at most."""
    steps: int
    episodes: int
    """Per task and evaluation."""


FULL = Size(EASY3, (DEMOS, HARVEST, CORRECT), 5, base=5, added=5, steps=1000, episodes=40)
QUICK = Size(EASY3, (CORRECT,), 1, base=2, added=1, steps=20, episodes=2)


def measure(workshop: Workshop) -> Section:
    size = QUICK if workshop.quick else FULL
    outcomes = []
    for seed in range(size.seeds):
        outcomes.append(_one_seed(workshop, size, seed))
        rates = {arm: f"{rate.rate:.0%}" for arm, rate in outcomes[-1].rates.items()}
        say(f"seed {seed}: {rates}, added {outcomes[-1].added}")
    return _section(size, outcomes)


def _one_seed(workshop: Workshop, size: Size, seed: int) -> Outcome:
    first = 10_000 * seed
    demos = ExpertDemos(tasks=size.tasks, episodes_per_task=size.base, seed=first)
    base_folder, base = workshop.stage(demos)
    checkpoint, rate = _train_and_judge(workshop, size, base_folder, seed)
    rates = {BASE: rate}
    candidates = {
        arm: _candidates(workshop, size, arm, base=base_folder, checkpoint=checkpoint, first=first)
        for arm in size.arms
    }
    found = {arm: _count(record, size.tasks) for arm, record in candidates.items()}
    added = {task: min(count[task] for count in found.values()) for task in size.tasks}
    frames = {BASE: 0}
    for arm, record in candidates.items():
        chosen = _first(record, added)
        frames[arm] = chosen.frames
        root = _merged(workshop, base, chosen, f"{arm.split()[0]}_{seed}")
        _, rates[arm] = _train_and_judge(workshop, size, root, seed)
    return Outcome(rates, added, found, frames)


def _candidates(
    workshop: Workshop, size: Size, arm: str, *, base: Path, checkpoint: Path, first: int
) -> DatasetRecord:
    """Episodes that this arm would add."""
    if arm == DEMOS:
        more = ExpertDemos(tasks=size.tasks, episodes_per_task=size.added, seed=first + 5000)
        return workshop.stage(more)[1]
    request = ImproveRequest(
        checkpoint=str(checkpoint),
        demos=str(base),
        method="harvest" if arm == HARVEST else "correct",
        tasks=size.tasks,
        episodes_per_task=size.added,
        max_attempts_per_task=12 * size.added,
        mixing_ratio=0.5,
        seed=int(SeedBlock.IMPROVE) + first,
    )
    folder, mix = workshop.stage(request)
    from lefleet.stages.datasets import describe_dataset, local_metadata

    metadata = local_metadata(folder / "added" if mix.added else base / "dataset")
    episodes = range(sum(mix.added.values()))
    return describe_dataset(metadata, episodes, source=arm)


def _first(record: DatasetRecord, wanted: Mapping[str, int]) -> DatasetRecord:
    """Only the first `wanted` episodes of every task."""
    from lefleet.stages.datasets import describe_dataset, episode_tasks, local_metadata

    metadata = local_metadata(Path(record.root))
    texts = episode_tasks(metadata)
    taken: Counter[str] = Counter()
    chosen = []
    for number in record.episodes:
        task = BY_INSTRUCTION[texts[number]]
        if taken[task] < wanted[task]:
            taken[task] += 1
            chosen.append(number)
    return describe_dataset(metadata, chosen, source=record.source)


def _merged(workshop: Workshop, base: DatasetRecord, added: DatasetRecord, name: str) -> Path:
    """The base data with `added`; the base data alone where there is nothing to add."""
    if not added.episodes:
        return Path(base.root)
    from lefleet.stages.datasets import merge

    root = workshop.folder / "merged" / name
    merge((base, added), root, workshop.folder / "merged" / f"{name}_scratch")
    return root


def _train_and_judge(workshop: Workshop, size: Size, data: Path, seed: int) -> tuple[Path, Rate]:
    training = TrainRequest(dataset=str(data), steps=size.steps, seed=seed, log_every=10)
    folder, _ = workshop.stage(training)
    request = EvaluateRequest(
        checkpoint=str(folder),
        tasks=size.tasks,
        episodes_per_task=size.episodes,
        videos_per_task=0,
    )
    return folder, workshop.stage(request)[1].result.overall


def _count(record: DatasetRecord, tasks: Sequence[str]) -> dict[str, int]:
    counts = Counter({BY_INSTRUCTION[text]: count for text, count in record.tasks.items()})
    return {task: counts[task] for task in tasks}


def _section(size: Size, outcomes: Sequence[Outcome]) -> Section:
    return Section(
        "what is worth adding",
        (arms_table((BASE, *size.arms), DEMOS, outcomes),),
        (
            *verdicts(size.arms, outcomes),
            f"Base: {size.base} demonstrations per task of {', '.join(size.tasks)}. Every arm adds "
            f"as many episodes of every task as the poorest arm found, at most {size.added}, and "
            f"trains from scratch for {size.steps} steps; {size.episodes} episodes per task on the "
            "same seeds judge all of them. An episode of correct holds only the expert's part, so "
            "equal numbers of episodes are not equal numbers of frames. Differences are paired by "
            "seed, with a 95 % t interval over seeds; the pooled interval counts episodes as "
            "independent, which episodes of one training are not.",
            f"Added, by seed: {list_counts(outcomes)}.",
        ),
    )
