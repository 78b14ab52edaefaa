"""collect: a proposal becomes a dataset."""

import math
from difflib import get_close_matches

from lefleet.errors import BadInput, StageFailed
from lefleet.records import (
    AddedData,
    CollectRequest,
    Corrections,
    DatasetRecord,
    ExistingDataset,
    ExpertDemos,
)
from lefleet.records.fields import DEFAULT_TASKS
from lefleet.rollouts import Demonstrate, EnvironmentDescription, Relabel, TakeOver
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.cameras import asked_cameras, require_own_cameras, require_rendering
from lefleet.stages.contract import (
    DataLayout,
    own_layout,
    require_same_shape,
    require_simulable,
)
from lefleet.stages.environment import begin_environment, layout_of
from lefleet.stages.folder import StageFolder
from lefleet.stages.gather import Gathered, GatherPlan, Goal, gather, rolled_out
from lefleet.stages.progress import DIGESTING, LOADING, Progress, Update
from lefleet.stages.references import (
    dataset_root,
    find_checkpoint,
    find_dataset,
    require_dataset_folder,
    verify_pins,
)


def collect(request: CollectRequest, stage: StageFolder, progress: Progress) -> DatasetRecord:
    """Carry out the request; the dataset covers every task asked for, or there is an error."""
    match request:
        case ExpertDemos():
            return _expert(request, stage, progress)
        case Corrections():
            return _corrections(request, stage, progress)
        case ExistingDataset():
            progress(LOADING)
            from lefleet.stages.datasets import select

            return select(request, progress)


def max_attempts(goal: int) -> int:
    """Attempts per task before the expert counts as unable."""
    return 4 * goal + 10


def demonstrations_by_task(
    request: ExpertDemos, environment: EnvironmentDescription | None = None
) -> dict[str, int]:
    """Demonstrations to keep of each task, without tasks of which none are wanted."""
    tasks = _named_tasks(request, environment) if environment else resolve_tasks(request.tasks)
    for name in request.episodes:
        if name not in tasks:
            near = get_close_matches(name, tasks, n=3)
            raise BadInput(
                f"episodes: {name!r} is not one of the tasks.",
                f"Did you mean {' or '.join(near)}?" if near else f"They are {', '.join(tasks)}.",
            )
    numbers = {task: request.episodes.get(task, request.episodes_per_task) for task in tasks}
    return {task: number for task, number in numbers.items() if number}


def _named_tasks(request: ExpertDemos, environment: EnvironmentDescription) -> tuple[str, ...]:
    """Tasks of an environment."""
    if request.tasks == DEFAULT_TASKS:
        return tuple(environment.tasks)
    for name in request.tasks:
        if name not in environment.tasks:
            raise BadInput(
                f"tasks: {environment.type} has no task {name!r}.",
                f"It has {', '.join(environment.tasks)}.",
            )
    return tuple(dict.fromkeys(request.tasks))


def _expert(request: ExpertDemos, stage: StageFolder, progress: Progress) -> DatasetRecord:
    require_own_cameras(request, request.env)
    cameras = asked_cameras(request)
    require_rendering(cameras, "cameras")
    environment = begin_environment(request.env, stage, progress)
    if environment and not environment.has_expert:
        raise BadInput(
            f"env: no expert is registered for {environment.type}.",
            "Call lefleet.experts.register in the package that discover_packages_path names.",
        )
    wanted = demonstrations_by_task(request, environment)
    if not wanted and not request.add_to:
        raise BadInput("episodes: 0 for every task.", "Ask for at least one, or name add_to.")
    for part in request.add_to:
        require_dataset_folder(part, "add_to")
        if not environment and (root := dataset_root(part)):
            require_same_shape(root, "add_to", cameras)
    if not wanted:
        return _add(None, request, stage, progress)
    goals = {
        task: Goal(number, max_attempts=max_attempts(number), block=math.ceil(number / 5) + 1)
        for task, number in wanted.items()
    }
    plan = GatherPlan(
        goals=goals,
        first_seed=request.seed,
        behaviour=Demonstrate(noise=request.noise),
        workers=request.workers,
        env=request.env,
        cameras=cameras,
    )
    gathered = gather(plan, stage, progress)
    for task, tally in gathered.tallies.items():
        if tally.kept < wanted[task]:
            raise StageFailed(
                f"The expert succeeded in only {tally.kept} of {tally.attempted} episodes of "
                f"{task}, {wanted[task]} are needed.",
                "Ask for fewer, or lower the noise.",
            )
    layout = layout_of(environment) if environment else own_layout(cameras)
    added = _write(gathered, stage, progress, source="expert", layout=layout)
    return _add(added, request, stage, progress) if request.add_to else added


def _corrections(request: Corrections, stage: StageFolder, progress: Progress) -> DatasetRecord:
    progress(DIGESTING)
    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    cameras = require_simulable(checkpoint, "checkpoint")
    require_rendering(cameras, "checkpoint")
    stage.pin(checkpoint=checkpoint.digest)
    takeover = request.mode == "takeover"
    behaviour = TakeOver(patience=request.patience) if takeover else Relabel()
    wanted = rolled_out(request, checkpoint, behaviour, cameras=cameras, keep_failures=not takeover)
    gathered = gather(wanted, stage, progress, verify_pins(stage, checkpoint=checkpoint))
    untouched = [task for task, kept in gathered.kept.items() if not kept]
    if untouched:
        raise StageFailed(
            f"No correction of {', '.join(untouched)} could be kept: the policy does not fail "
            "there, or the expert cannot recover.",
            "Leave these tasks out, or use improve, which adds corrections to demonstrations.",
        )
    return _write(
        gathered,
        stage,
        progress,
        source="corrections",
        parents=(checkpoint.digest,),
        layout=own_layout(cameras),
    )


def _add(
    added: DatasetRecord | None, request: ExpertDemos, stage: StageFolder, progress: Progress
) -> DatasetRecord:
    """All that was there and what was added, if anything, merged into one dataset."""
    from lefleet.stages.datasets import describe_dataset, merge

    progress(Update.phase("merging with the earlier data"))
    parts = [find_dataset(name, "add_to").record for name in request.add_to]
    for part, digest in zip(parts, request.add_to_digests, strict=False):
        if part.digest != digest:
            raise BadInput(
                f"add_to: the data in {part.root} has changed (digest {part.digest[:12]} now, "
                f"{digest[:12]} expected).",
                "Restore it.",
            )
    if added:
        parts.append(added)
    merged = merge(parts, stage.fresh("merged"), stage.fresh("scratch"))
    progress(DIGESTING)
    return describe_dataset(
        merged,
        range(merged.total_episodes),
        source="mix",
        tallies=added.tallies if added else {},
        parents=(part.digest for part in parts),
        added=AddedData(digest=added.digest, root=added.root, episodes=len(added.episodes))
        if added
        else None,
    )


def _write(
    gathered: Gathered,
    stage: StageFolder,
    progress: Progress,
    *,
    source: str,
    layout: DataLayout,
    parents: tuple[str, ...] = (),
) -> DatasetRecord:
    progress(LOADING)
    from lefleet.stages.datasets import write_dataset

    return write_dataset(
        stage.fresh("dataset"),
        gathered.interleaved(),
        progress,
        source=source,
        tallies=gathered.tallies,
        parents=parents,
        layout=layout,
    )
