"""One evaluation with a stopwatch, by lerobot-eval or by lefleet eval."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.workshop import EASY3, Workshop, python
from lefleet.records import EpisodeRecord, SeedBlock
from lefleet.rollouts import Act, EpisodeBatch, PlannedEpisode, Simulators, default_workers
from lefleet.stages.gather import Key, interleave, plan_batches

BATCH = 20
SEED = int(SeedBlock.EVALUATE)


class Timing(NamedTuple):
    """One evaluation: the whole command, and the simulation alone."""

    command_s: float
    simulation_s: float
    successes: dict[tuple[str, int], bool]
    """By task and seed."""


class Job(NamedTuple):
    """What to evaluate."""

    workshop: Workshop
    checkpoint: str
    episodes: int


def stock(*, films: bool, parallel: bool) -> Callable[[Job], Timing]:
    """Stock LeRobot; `parallel` environments are processes of their own."""

    def run(job: Job) -> Timing:
        module = "lerobot.scripts.lerobot_eval" if films else "benchmarks.unfilmed_eval"
        output = _fresh(job.workshop.folder / "lerobot_eval")
        flags = (
            f"--policy.path={job.checkpoint}",
            "--policy.device=cpu",
            "--env.discover_packages_path=lefleet.sim",
            "--env.type=lefleet_metaworld",
            f"--env.task={','.join(EASY3)}",
            f"--eval.n_episodes={job.episodes}",
            f"--eval.batch_size={min(BATCH, job.episodes)}",
            f"--eval.use_async_envs={str(parallel).lower()}",
            f"--seed={SEED}",
            f"--output_dir={output}",
        )
        name = f"lerobot_eval_films_{films}_parallel_{parallel}"
        command_s = job.workshop.command(python("-m", module, *flags), name)
        info = msgspec.json.decode((output / "eval_info.json").read_bytes())
        successes = {
            (task["task_group"], SEED + number): success
            for task in info["per_task"]
            for number, success in enumerate(task["metrics"]["successes"])
        }
        return Timing(command_s, info["overall"]["eval_s"], successes)

    return run


def ours(films: int) -> Callable[[Job], Timing]:
    """lefleet, filming some episodes of every task."""

    def run(job: Job) -> Timing:
        output = _fresh(job.workshop.folder / "lefleet_eval")
        flags = (
            *("--checkpoint", job.checkpoint, "--tasks", "easy3", "--out", str(output)),
            *("--episodes-per-task", str(job.episodes), "--videos-per-task", str(films)),
        )
        name = f"lefleet_eval_films_{films}"
        command_s = job.workshop.command(python("-m", "lefleet", "eval", *flags), name)
        lines = (output / "episodes.jsonl").read_bytes().splitlines()
        episodes = [msgspec.json.decode(line, type=EpisodeRecord) for line in lines]
        successes = {(episode.task, episode.seed): episode.success for episode in episodes}
        return Timing(command_s, _simulate(job, films), successes)

    return run


def _simulate(job: Job, films: int) -> float:
    """Seconds of the same batches on workers that have their policy and worlds, as LeRobot has
    before it starts the clock of its eval_s."""
    videos = _fresh(job.workshop.folder / "videos")

    def batches(first_seed: int, films: int) -> Iterator[EpisodeBatch]:
        def planned(row: int, key: Key) -> PlannedEpisode:
            video = str(videos / f"{key.task}_{key.seed}.mp4")
            filmed = key.seed - first_seed < films
            return PlannedEpisode(
                row=row, task=key.task, seed=key.seed, video=video if filmed else ""
            )

        seeds = range(first_seed, first_seed + job.episodes)
        keys = interleave(job.checkpoint, EASY3, seeds)
        return plan_batches(keys, (), size=BATCH, behaviour=Act(), plan_episode=planned)

    log = job.workshop.folder / "simulators.log"
    with Simulators(workers=default_workers(), device="cpu", log=log) as simulators:
        list(simulators.run(batches(SEED + 1000, 0)))
        started = time.perf_counter()
        list(simulators.run(batches(SEED, films)))
        return time.perf_counter() - started


def _fresh(path: Path) -> Path:
    if path.exists():
        shutil.rmtree(path)
    return path
