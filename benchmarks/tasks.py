"""Success on the MT10 tasks outside easy3: one policy for all seven."""

from collections import Counter
from pathlib import Path

import msgspec

from benchmarks.report import Section, table
from benchmarks.workshop import EASY3, Workshop
from lefleet import EvaluateRequest, ExpertDemos, TrainRequest
from lefleet.records import Rate
from lefleet.sim.tasks import TASK_SETS

OTHERS = tuple(task for task in TASK_SETS["mt10"] if task not in EASY3)


def measure(workshop: Workshop) -> Section:
    quick = workshop.quick
    # A quick run shares the data and the training of the other benchmarks.
    tasks = EASY3 if quick else OTHERS
    count = 2 if quick else 20
    steps = 20 if quick else 3000
    demos, dataset = workshop.stage(ExpertDemos(tasks=tasks, episodes_per_task=count))
    training = TrainRequest(dataset=str(demos), steps=steps, log_every=10)
    trained, _ = workshop.stage(training)
    request = EvaluateRequest(
        checkpoint=str(trained), tasks=tasks, episodes_per_task=count, videos_per_task=0
    )
    _, evaluation = workshop.stage(request)
    result = evaluation.result
    expert = _expert_successes(demos)
    rows = [
        (
            task,
            f"{expert[task]}/{dataset.tallies[task].attempted}",
            _rate(result.per_task[task]),
        )
        for task in tasks
    ]
    attempted = sum(tally.attempted for tally in dataset.tallies.values())
    rows.append(("all", f"{expert.total()}/{attempted}", _rate(result.overall)))
    header = ("task", "scripted expert, on the seeds of the data", "policy, on seeds never seen")
    return Section(
        "success outside easy3",
        (table(header, rows),),
        (
            f"One multi-task ACT on the robot's state, {count} demonstrations per task, {steps} "
            f"steps, {count} episodes per task; exact 95 % intervals.",
            *_remarks(result.per_task),
        ),
    )


def _expert_successes(collect: Path) -> Counter[str]:
    """All of them: a stage keeps no more than it was asked for."""
    lines = (collect / "attempts.jsonl").read_bytes().splitlines()
    attempts = [msgspec.json.decode(line) for line in lines]
    return Counter(attempt["task"] for attempt in attempts if attempt["success"])


def _rate(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.successes}/{rate.episodes} = {rate.rate:.0%} ({low:.0%} to {high:.0%})"


def _remarks(per_task: dict[str, Rate]) -> list[str]:
    weak = [task for task, rate in per_task.items() if rate.rate < 0.5]
    if not weak:
        return ["Every task succeeds in at least half of its episodes."]
    return [f"Less than half of the episodes succeed in {', '.join(weak)}."]
