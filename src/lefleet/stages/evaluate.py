"""evaluate: a fixed block of episodes, in LeFleet's simulation or in a LeRobot environment."""

from collections.abc import Sequence
from pathlib import Path

from lefleet.errors import BadInput
from lefleet.records import (
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    PolicyResult,
    Rate,
)
from lefleet.rollouts import (
    Act,
    EnvironmentDescription,
    Finished,
    PlannedEpisode,
    Simulators,
    default_workers,
)
from lefleet.stages.cameras import rendered_cameras
from lefleet.stages.environment import (
    begin_environment,
    episode_tasks,
    require_own_episodes,
    require_runnable,
)
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.gather import Key, file_name, interleave, plan_batches
from lefleet.stages.progress import (
    DIGESTING,
    STARTING_SIMULATION,
    Progress,
    Update,
    room_told,
)
from lefleet.stages.references import CheckpointReference, find_checkpoint, verify_pins
from lefleet.stats import exact_interval

EPISODES = "episodes.jsonl"


def evaluate(request: EvaluateRequest, stage: StageFolder, progress: Progress) -> EvaluationRecord:
    """Run every episode that is not in `episodes.jsonl` yet, then summarise the file."""
    environment = begin_environment(request.env, stage, progress)
    tasks = episode_tasks(request, environment)
    _require_listed_states(request, environment)
    progress(DIGESTING)
    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    require_runnable(checkpoint, "checkpoint", environment)
    stage.pin(checkpoint=checkpoint.digest)
    verify = verify_pins(stage, checkpoint=checkpoint)
    with Journal(stage.path / EPISODES, EpisodeRecord, verify) as journal:
        require_own_episodes(journal, stage)
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


def _require_listed_states(
    request: EvaluateRequest, environment: EnvironmentDescription | None
) -> None:
    """Raise BadInput where episodes would begin from the same state twice: an interval counts on
    independent ones."""
    listed = environment.initial_states if environment else 0
    if listed and request.episodes_per_task > listed:
        raise BadInput(
            f"episodes_per_task: {request.env['type']} has {listed} initial states for each task.",
            f"Ask for at most {listed}.",
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
    most = request.workers or default_workers(request.device, request.env)
    workers = min(most, -(-total // request.batch_size))

    def plan_episode(row: int, key: Key) -> PlannedEpisode:
        filmed = key.seed - request.seed < request.videos_per_task
        video = stage.path / "videos" / f"{file_name(key.task)}_{key.seed}.mp4"
        return PlannedEpisode(
            row=row,
            task=key.task,
            seed=key.seed,
            number=key.seed - request.seed,
            video=str(video) if filmed else "",
        )

    batches = plan_batches(
        interleave(checkpoint, tasks, seeds),
        {Key(checkpoint, line.task, line.seed) for line in journal.lines},
        size=request.batch_size,
        behaviour=Act(),
        plan_episode=plan_episode,
        env=request.env,
        cameras=rendered_cameras(checkpoint, request.env),
        episode_length=request.episode_length,
    )

    def report() -> None:
        count = len(journal.lines)
        successes = sum(line.success for line in journal.lines)
        progress(Update(count, total, "episodes", f"{successes} of {count} succeeded"))

    progress(STARTING_SIMULATION)
    with Simulators(
        workers=workers, device=request.device, log=stage.log, on_wait=room_told(progress)
    ) as simulators:
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
