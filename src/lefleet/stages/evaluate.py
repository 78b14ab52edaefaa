"""evaluate: a fixed block of episodes, streamed one by one; two checkpoints on the same seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lefleet.records import (
    EpisodeRecord,
    EvaluateRequest,
    EvaluationRecord,
    PairCounts,
    PolicyResult,
    Rate,
)
from lefleet.rollouts import Act, Finished, Simulators, Slot, default_workers
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.folder import StageFolder
from lefleet.stages.inputs import require_simulable
from lefleet.stages.journal import Journal
from lefleet.stages.plan import Key, interleave, plan_batches
from lefleet.stages.progress import Progress, Update
from lefleet.stages.references import CheckpointReference, find_checkpoint
from lefleet.stages.stock_eval import run_stock
from lefleet.stats import exact_interval

EPISODES = "episodes.jsonl"


def evaluate(request: EvaluateRequest, stage: StageFolder, progress: Progress) -> EvaluationRecord:
    """Run every episode that is not in `episodes.jsonl` yet, then summarise the file."""
    if request.env:
        return _evaluate_elsewhere(request, stage, progress)
    tasks = resolve_tasks(request.tasks)
    candidate = find_checkpoint(request.checkpoint, "checkpoint")
    baseline = find_checkpoint(request.baseline, "baseline") if request.baseline else None
    require_simulable(candidate, "checkpoint")
    if baseline is not None:
        require_simulable(baseline, "baseline")
    _pin(stage, candidate, baseline)
    # A checkpoint against itself is one path with two roles: the role tells them apart.
    roles = {"candidate": candidate.path} | ({"baseline": baseline.path} if baseline else {})
    with Journal(stage.path / EPISODES, EpisodeRecord) as journal:
        _run_missing(request, tasks, roles, journal, stage=stage, progress=progress)
        episodes: list[EpisodeRecord] = journal.lines
    return _record(request, tasks, candidate, baseline, episodes=episodes)


def _evaluate_elsewhere(
    request: EvaluateRequest, stage: StageFolder, progress: Progress
) -> EvaluationRecord:
    """In an environment that is not ours: lerobot-eval runs each policy's whole block."""
    candidate = find_checkpoint(request.checkpoint, "checkpoint")
    baseline = find_checkpoint(request.baseline, "baseline") if request.baseline else None
    _pin(stage, candidate, baseline)
    roles = {"candidate": candidate.path} | ({"baseline": baseline.path} if baseline else {})
    with Journal(stage.path / EPISODES, EpisodeRecord) as journal:
        run_stock(request, roles, journal, stage, progress)
        episodes: list[EpisodeRecord] = journal.lines
    tasks = tuple(dict.fromkeys(episode.task for episode in episodes))
    return _record(request, tasks, candidate, baseline, episodes=episodes)


def _pin(
    stage: StageFolder, candidate: CheckpointReference, baseline: CheckpointReference | None
) -> None:
    stage.pin(checkpoint=candidate.digest, baseline=baseline.digest if baseline else "")


def _record(
    request: EvaluateRequest,
    tasks: tuple[str, ...],
    candidate: CheckpointReference,
    baseline: CheckpointReference | None,
    *,
    episodes: list[EpisodeRecord],
) -> EvaluationRecord:
    ours = [episode for episode in episodes if episode.policy == "candidate"]
    theirs = [episode for episode in episodes if episode.policy == "baseline"]
    return EvaluationRecord(
        candidate=summarise(candidate, tasks, ours),
        baseline=summarise(baseline, tasks, theirs) if baseline else None,
        pairs=count_pairs(ours, theirs) if baseline else None,
        tasks=tasks,
        first_seed=request.seed,
        episodes_per_task=request.episodes_per_task,
        episodes_file=EPISODES,
        videos_note=next((e.video_problem for e in episodes if e.video_problem), ""),
    )


def _run_missing(
    request: EvaluateRequest,
    tasks: tuple[str, ...],
    roles: Mapping[str, str],
    journal: Journal,
    *,
    stage: StageFolder,
    progress: Progress,
) -> None:
    """Append the missing episodes."""
    seeds = range(request.seed, request.seed + request.episodes_per_task)
    total = len(roles) * len(tasks) * len(seeds)
    successes = sum(line.success for line in journal.lines)
    workers = min(request.workers or default_workers(), -(-total // request.batch_size))
    with Simulators(workers=workers, device=request.device, log=stage.log) as simulators:
        for role, path in roles.items():
            done = {
                Key(path, line.task, line.seed) for line in journal.lines if line.policy == role
            }

            def slot(row: int, key: Key, role: str = role) -> Slot:
                filmed = key.seed - request.seed < request.videos_per_task
                video = stage.path / "videos" / f"{role}_{key.task}_{key.seed}.mp4"
                return Slot(
                    row=row, task=key.task, seed=key.seed, video=str(video) if filmed else ""
                )

            batches = plan_batches(
                interleave(path, tasks, seeds),
                done,
                size=request.batch_size,
                behaviour=Act(),
                make_slot=slot,
                episode_length=request.episode_length,
            )
            for finished in simulators.run(batches):
                journal.append(episode_of(role, finished, stage.path))
                successes += finished.success
                count = len(journal.lines)
                progress(Update(count, total, "episodes", f"{successes} of {count} succeeded"))


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


def count_pairs(ours: Sequence[EpisodeRecord], theirs: Sequence[EpisodeRecord]) -> PairCounts:
    """Outcomes of both checkpoints on the same task and seed."""
    baseline = {(episode.task, episode.seed): episode.success for episode in theirs}
    pairs = [(episode.success, baseline[episode.task, episode.seed]) for episode in ours]
    return PairCounts(
        both=pairs.count((True, True)),
        only_candidate=pairs.count((True, False)),
        only_baseline=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )
