"""Which episodes run in which batch, and rolling out until enough of every task are kept."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import batched, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lefleet.records import AttemptCounts, Corrections, ImproveRequest
from lefleet.rollouts import Behaviour, EpisodeBatch, Finished, PlannedEpisode, Simulators
from lefleet.sim.render import CameraSizes
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.progress import STARTING_SIMULATION, Progress, Update, room_told
from lefleet.stages.references import CheckpointReference

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")


class Key(NamedTuple):
    """One episode: who acts, in which task, from which seed."""

    checkpoint: str
    task: str
    seed: int


def interleave(checkpoint: str, tasks: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """All tasks for the first seed, then all for the second: every stretch is balanced."""
    return [Key(checkpoint, task, seed) for seed in seeds for task in tasks]


def plan_batches(
    episodes: Sequence[Key],
    done: Container[Key],
    *,
    size: int,
    behaviour: Behaviour,
    plan_episode: Callable[[int, Key], PlannedEpisode],
    env: Mapping[str, str] = MappingProxyType({}),
    cameras: CameraSizes = MappingProxyType({}),
    episode_length: int = 0,
    keep_failures: bool = False,
) -> Iterator[EpisodeBatch]:
    """Batches of at most `size` episodes of one checkpoint, without those that are `done`.

    Batches and rows are laid out over all episodes first and thinned out afterwards, so a resumed
    stage computes the missing episodes exactly as an uninterrupted one would have.
    """
    for group in batched(episodes, size):
        planned = tuple(plan_episode(row, key) for row, key in enumerate(group) if key not in done)
        if planned:
            yield EpisodeBatch(
                size=size,
                episodes=planned,
                behaviour=behaviour,
                checkpoint=group[0].checkpoint,
                env=dict(env),
                cameras=dict(cameras),
                seed=group[0].seed,
                episode_length=episode_length,
                keep_failures=keep_failures,
            )


POLICY_BATCH = 15
"""Episodes that step together where a policy acts."""


class Goal(NamedTuple):
    """What to gather of one task."""

    episodes: int
    """Episodes to keep."""
    max_attempts: int
    block: int
    """Attempts in each round after the first."""


class GatherPlan(NamedTuple):
    """What to gather."""

    goals: Mapping[str, Goal]
    """By task. Which episodes of one task are kept does not depend on the others' goals."""
    first_seed: int
    behaviour: Behaviour
    checkpoint: str = ""
    batch_size: int = 4
    """Episodes that step together."""
    keep_failures: bool = False
    workers: int = 0
    device: str = "cpu"
    env: Mapping[str, str] = MappingProxyType({})
    """Flags of the LeRobot environment that they run in. Empty: LeFleet's simulation."""
    cameras: CameraSizes = MappingProxyType({})
    """Cameras of LeFleet's simulation to render."""


def rolled_out(
    request: Corrections | ImproveRequest,
    checkpoint: CheckpointReference,
    behaviour: Behaviour,
    *,
    cameras: CameraSizes,
    keep_failures: bool = False,
) -> GatherPlan:
    """What to gather where a policy acts."""
    number = request.episodes_per_task
    goal = Goal(number, max_attempts=request.max_attempts_per_task or 5 * number, block=number)
    return GatherPlan(
        goals=dict.fromkeys(resolve_tasks(request.tasks), goal),
        first_seed=request.seed,
        behaviour=behaviour,
        checkpoint=checkpoint.path,
        batch_size=POLICY_BATCH,
        keep_failures=keep_failures,
        workers=request.workers,
        device=request.device,
        cameras=cameras,
    )


class Gathered(NamedTuple):
    """Kept episodes by task, in the order of their seeds, and how many it took."""

    kept: dict[str, list[Finished]]
    tallies: dict[str, AttemptCounts]

    def interleaved(self) -> list[Finished]:
        """First of every task, second of every task, and so on: any beginning is balanced."""
        rows = zip_longest(*self.kept.values())
        return [finished for row in rows for finished in row if finished is not None]


def gather(
    wanted: GatherPlan,
    stage: StageFolder,
    progress: Progress,
    verify: Callable[[], None] = lambda: None,
) -> Gathered:
    """Attempts count up from the first seed in rounds; the first that are kept are taken.

    Which episodes those are depends on seeds alone, not on timing or interruptions: rounds are
    finished before they are looked at, and every attempt is in `attempts.jsonl`. `verify` is called
    before each of them is written.
    """
    frames = stage.path / "frames"
    frames.mkdir(exist_ok=True)
    goals = wanted.goals
    total = sum(goal.episodes for goal in goals.values())

    def plan_episode(row: int, key: Key) -> PlannedEpisode:
        path = frames / f"{file_name(key.task)}_{key.seed}.npz"
        number = key.seed - wanted.first_seed
        return PlannedEpisode(
            row=row, task=key.task, seed=key.seed, number=number, frames=str(path)
        )

    with (
        Journal(stage.path / "attempts.jsonl", Finished, verify) as journal,
        Simulators(
            workers=wanted.workers,
            device=wanted.device,
            log=stage.log,
            on_wait=room_told(progress),
        ) as simulators,
    ):
        progress(STARTING_SIMULATION)
        done = {_key(line): line for line in journal.lines if _is_intact(line)}
        for seeds in _rounds(wanted):
            short = {
                task: of_task
                for task, of_task in seeds.items()
                if _is_short(wanted, done.values(), task, of_task.start)
            }
            if not short:
                break
            batches = plan_batches(
                _attempts(wanted.checkpoint, short),
                done,
                size=wanted.batch_size,
                behaviour=wanted.behaviour,
                plan_episode=plan_episode,
                env=wanted.env,
                cameras=wanted.cameras,
                keep_failures=wanted.keep_failures,
            )
            kept = Counter(line.task for line in done.values() if line.labelled)

            def report(kept: Counter[str] = kept) -> None:
                count = sum(min(number, goals[task].episodes) for task, number in kept.items())
                progress(Update(count, total, "episodes", f"{len(done)} attempted"))

            for finished in simulators.run(batches, on_begin=report):
                journal.append(finished)
                done[_key(finished)] = finished
                kept[finished.task] += bool(finished.labelled)
                report()
        attempted = list(done.values())
        kept_by_task = {task: _take(wanted, attempted, task) for task in goals}
        attempts = Counter(line.task for line in attempted)
        tallies = {
            task: AttemptCounts(kept=len(kept_by_task[task]), attempted=attempts[task])
            for task in goals
        }
        return Gathered(kept_by_task, tallies)


def _key(line: Finished) -> Key:
    return Key(line.checkpoint, line.task, line.seed)


def _is_intact(line: Finished) -> bool:
    """Whether an attempt's frames are still there; without them it counts as not made."""
    return not line.frames or (Path(line.frames).is_file() and Path(line.frames).stat().st_size > 0)


def _rounds(wanted: GatherPlan) -> Iterator[dict[str, range]]:
    """Seeds of each task in each round, without tasks that have used all their attempts."""
    by_task = [_task_rounds(goal, wanted.first_seed) for goal in wanted.goals.values()]
    for ranges in zip_longest(*by_task, fillvalue=range(0)):
        yield {task: seeds for task, seeds in zip(wanted.goals, ranges, strict=True) if seeds}


def _task_rounds(goal: Goal, first_seed: int) -> Iterator[range]:
    """Seeds of each round: first as many as are wanted, then `block` more at a time."""
    start = 0
    while start < goal.max_attempts:
        size = goal.block if start else goal.episodes
        stop = min(start + size, goal.max_attempts)
        yield range(first_seed + start, first_seed + stop)
        start = stop


def _attempts(checkpoint: str, seeds: Mapping[str, range]) -> list[Key]:
    """The episodes of one round, interleaved as long as the seeds of several tasks last."""
    first = min(one.start for one in seeds.values())
    stop = max(one.stop for one in seeds.values())
    keys = interleave(checkpoint, list(seeds), range(first, stop))
    return [key for key in keys if key.seed in seeds[key.task]]


def _is_short(wanted: GatherPlan, lines: Iterable[Finished], task: str, seed: int) -> bool:
    """Whether fewer episodes of `task` than are wanted were kept before `seed`."""
    before = [line for line in lines if line.seed < seed]
    return len(_take(wanted, before, task)) < wanted.goals[task].episodes


def _take(wanted: GatherPlan, lines: Iterable[Finished], task: str) -> list[Finished]:
    """The first kept episodes of `task` by seed, as many as are wanted."""
    kept = (line for line in lines if line.task == task and line.labelled)
    return sorted(kept, key=lambda line: line.seed)[: wanted.goals[task].episodes]


def file_name(task: str) -> str:
    """A name for files of a task, which may have any text."""
    if _PLAIN.fullmatch(task):
        return task
    digest = hashlib.sha256(task.encode()).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9_-]+', '-', task)[:60]}-{digest}"
