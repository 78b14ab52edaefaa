"""evaluate: a fixed block of episodes, here or in another environment by `lerobot-eval`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lefleet.process import launch, oom_kills, stop
from lefleet.records import (
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    PolicyResult,
    Rate,
)
from lefleet.records.evaluate import PolicyRole
from lefleet.rollouts import Act, Finished, PlannedEpisode, Simulators, default_workers
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.contract import require_simulable
from lefleet.stages.eval_info import EVAL_INFO, parse_eval_info
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.gather import Key, interleave, plan_batches
from lefleet.stages.lerobot_train import failure_of, split_lines
from lefleet.stages.progress import DIGESTING, STARTING_SIMULATION, Progress, Update
from lefleet.stages.references import CheckpointReference, find_checkpoint, verify_pins
from lefleet.stats import exact_interval

EPISODES = "episodes.jsonl"


def evaluate(request: EvaluateRequest, stage: StageFolder, progress: Progress) -> EvaluationRecord:
    """Run every episode that is not in `episodes.jsonl` yet, then summarise the file."""
    tasks = () if request.env else resolve_tasks(request.tasks)
    progress(DIGESTING)
    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    if not request.env:
        require_simulable(checkpoint, "checkpoint")
    stage.pin(checkpoint=checkpoint.digest)
    verify = verify_pins(stage, checkpoint=checkpoint)
    with Journal(stage.path / EPISODES, EpisodeRecord, verify) as journal:
        if request.env:
            run_stock(request, {"candidate": checkpoint.path}, journal, stage, progress)
            tasks = tuple(dict.fromkeys(line.task for line in journal.lines))
        else:
            _run_missing(request, tasks, checkpoint.path, journal, stage=stage, progress=progress)
        episodes: list[EpisodeRecord] = journal.lines
    return EvaluationRecord(
        result=summarise(checkpoint, tasks, episodes),
        tasks=tasks,
        first_seed=request.seed,
        episodes_per_task=request.episodes_per_task,
        episodes_file=EPISODES,
        videos_note=next((e.video_problem for e in episodes if e.video_problem), ""),
    )


def _run_missing(
    request: EvaluateRequest,
    tasks: tuple[str, ...],
    checkpoint: str,
    journal: Journal,
    *,
    stage: StageFolder,
    progress: Progress,
) -> None:
    """Append the missing episodes."""
    seeds = range(request.seed, request.seed + request.episodes_per_task)
    total = len(tasks) * len(seeds)
    workers = min(request.workers or default_workers(), -(-total // request.batch_size))

    def plan_episode(row: int, key: Key) -> PlannedEpisode:
        filmed = key.seed - request.seed < request.videos_per_task
        video = stage.path / "videos" / f"{key.task}_{key.seed}.mp4"
        return PlannedEpisode(
            row=row, task=key.task, seed=key.seed, video=str(video) if filmed else ""
        )

    batches = plan_batches(
        interleave(checkpoint, tasks, seeds),
        {Key(checkpoint, line.task, line.seed) for line in journal.lines},
        size=request.batch_size,
        behaviour=Act(),
        plan_episode=plan_episode,
        episode_length=request.episode_length,
    )

    def report() -> None:
        count = len(journal.lines)
        successes = sum(line.success for line in journal.lines)
        progress(Update(count, total, "episodes", f"{successes} of {count} succeeded"))

    progress(STARTING_SIMULATION)
    with Simulators(workers=workers, device=request.device, log=stage.log) as simulators:
        for finished in simulators.run(batches, on_begin=report):
            journal.append(episode_of("candidate", finished, stage.path))
            report()


def episode_of(role: str, finished: Finished, folder: Path) -> EpisodeRecord:
    """What is kept of a finished episode."""
    return EpisodeRecord(
        policy="candidate" if role == "candidate" else "baseline",
        task=finished.task,
        seed=finished.seed,
        success=finished.success,
        progress=round(finished.progress, 4),
        length=finished.length,
        video=str(Path(finished.video).relative_to(folder)) if finished.video else "",
        video_problem=finished.video_problem,
        start=finished.start,
    )


def summarise(
    checkpoint: CheckpointReference, tasks: Sequence[str], episodes: Sequence[EpisodeRecord]
) -> PolicyResult:
    """Rates with exact intervals, over all and per task."""
    return PolicyResult(
        checkpoint=checkpoint.path,
        digest=checkpoint.digest,
        overall=rate(episodes),
        per_task={task: rate([e for e in episodes if e.task == task]) for task in tasks},
        mean_progress=sum(e.progress for e in episodes) / len(episodes),
        mean_length=sum(e.length for e in episodes) / len(episodes),
    )


def rate(episodes: Sequence[EpisodeRecord]) -> Rate:
    """Successes of a number of episodes that was fixed beforehand."""
    return rate_of([episode.success for episode in episodes])


def rate_of(successes: Sequence[bool]) -> Rate:
    """As `rate`, of outcomes alone."""
    count = len(successes)
    return Rate(
        successes=sum(successes),
        episodes=count,
        rate=sum(successes) / count,
        interval=exact_interval(sum(successes), count),
    )


def eval_command(request: EvaluateRequest, checkpoint: str, output: Path) -> tuple[str, ...]:
    """The command line: a pure function of the request."""
    flags = {
        "policy.path": checkpoint,
        "policy.device": request.device,
        **{f"env.{name}": value for name, value in request.env.items()},
        "eval.n_episodes": str(request.episodes_per_task),
        "eval.batch_size": str(min(request.batch_size, request.episodes_per_task)),
        "seed": str(request.seed),
        "output_dir": str(output),
    }
    program = (sys.executable, "-m", "lerobot.scripts.lerobot_eval")
    return (*program, *(f"--{name}={value}" for name, value in flags.items()))


def run_stock(
    request: EvaluateRequest,
    roles: Mapping[str, str],
    journal: Journal,
    stage: StageFolder,
    progress: Progress,
) -> None:
    """Append every policy's whole block that is not there yet; `roles` are paths by role."""
    for number, (name, path) in enumerate(roles.items()):
        role: PolicyRole = "candidate" if name == "candidate" else "baseline"
        remark = f"lerobot-eval runs the {role}"
        update = Update(number, len(roles), "policies", remark)
        progress(update if len(roles) > 1 else Update.phase(remark))
        if not any(line.policy == role for line in journal.lines):
            # All lines of one policy at once, so that none means not run.
            journal.extend(stock_episodes(request, role, path, stage))


def stock_episodes(
    request: EvaluateRequest, role: PolicyRole, checkpoint: str, stage: StageFolder
) -> Iterator[EpisodeRecord]:
    """Run one policy's whole block; lerobot-eval reports all episodes at its end."""
    output = stage.fresh(role)
    before = oom_kills()
    with stage.log.open("ab") as log:
        child = launch(eval_command(request, checkpoint, output), stdout=log, stderr=log)
        try:
            code = child.wait()
        finally:
            stop(child)
    if code:
        output_lines = split_lines(stage.log.read_text(errors="replace"))
        where = f"The whole log is {stage.log}."
        raise failure_of("lerobot-eval", code, before, output_lines, where)
    for task, episodes in parse_eval_info((output / EVAL_INFO).read_bytes()).items():
        for number, episode in enumerate(episodes):
            yield EpisodeRecord(
                policy=role,
                task=task,
                seed=request.seed + number,
                success=episode.success,
                progress=episode.progress,
                length=0,
            )
