"""What a run would do: its stages and the exact child commands, without doing anything."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from lefleet.loop.requests import demonstrations, make_request, stage_folder
from lefleet.loop.state import CycleState, RunState
from lefleet.records import (
    CheckpointContract,
    CheckpointRecord,
    CompareRequest,
    DatasetRecord,
    Decision,
    EvaluateRequest,
    ExpertDemos,
    ExpertGrowth,
    ImproveRequest,
    Request,
    RunConfig,
    TrainRequest,
)
from lefleet.stages.compare import stock_block
from lefleet.stages.evaluate import eval_command
from lefleet.stages.lerobot_train import start_command


def plan_lines(config: RunConfig, run_folder: Path) -> Iterator[str]:
    """Lines for a person; commands can be copied."""
    yield f"run {config.name}: at most {config.budgets.cycles} cycles on {', '.join(config.tasks)}"
    yield "rungs: " + ", then ".join(f"{rung.name} ({rung.policy_type})" for rung in config.ladder)
    if config.budgets.cycles > 1:
        yield "shown as if the checkpoint of every cycle were blessed, all on the first rung"
    cycles: list[CycleState] = []
    for cycle in range(config.budgets.cycles):
        yield ""
        yield f"cycle {cycle}"
        now = RunState(config, [*cycles, CycleState(cycle, {}, None)], 0.0, stop_requested=False)
        stages = ["collect", "train", "evaluate", *(["gate"] if cycle else [])]
        for stage in stages:
            yield from _stage_lines(now, run_folder, cycle, stage)
        yield "  decide: baseline, promote, iterate, escalate, rollback or stop"
        cycles.append(_blessed_cycle(config, run_folder, cycle))
        if config.improve.method != "none" and cycle + 1 < config.budgets.cycles:
            then = RunState(config, list(cycles), 0.0, stop_requested=False)
            yield from _stage_lines(then, run_folder, cycle, "improve")


def _stage_lines(state: RunState, run_folder: Path, cycle: int, stage: str) -> Iterator[str]:
    request = make_request(state, run_folder, cycle, stage)
    folder = stage_folder(run_folder, cycle, stage)
    yield f"  {stage}: {_words(request, state.config, cycle)}"
    yield "    " + shlex.join(("lefleet", "stage", "exec", str(folder)))
    for argv in _children(request, state.config, folder):
        yield "      " + shlex.join(argv)


def _blessed_cycle(config: RunConfig, run_folder: Path, cycle: int) -> CycleState:
    """A cycle to come, whose candidate will have been blessed."""
    rung = config.ladder[0]
    training = stage_folder(run_folder, cycle, "train") / "training"
    digest = f"checkpoint of cycle {cycle}"
    checkpoint = CheckpointRecord(
        path=str(training / "checkpoints" / f"{rung.steps:06d}" / "pretrained_model"),
        digest=digest,
        policy_type=rung.policy_type,
        steps=rung.steps,
        final_loss=None,
        curve=(),
        contract=CheckpointContract(
            action_names=(),
            vectors={},
            cameras={},
            fps=0,
            policy_type=rung.policy_type,
            robot_type="",
            tasks=config.tasks,
            dataset_digest="",
        ),
    )
    decision = Decision(
        cycle=cycle, decision="promote", why="", rung=0, candidate=digest, blessed=digest
    )
    return CycleState(cycle, {"train": checkpoint}, decision)


def _words(request: Request, config: RunConfig, cycle: int) -> str:
    match request:
        case ExpertDemos():
            total = demonstrations(config.collect, cycle) if _grows(config) else 0  # type: ignore[arg-type]
            return f"{request.episodes_per_task} new demonstrations per task, {total} in all"
        case TrainRequest():
            return f"{request.steps} steps of {request.policy_type}{_start(request, config)}"
        case CompareRequest():
            return (
                f"candidate and baseline on at most {request.max_pairs} fresh pairs from seed "
                f"{request.seed}, at level {request.alpha:.2g}"
            )
        case ImproveRequest():
            return f"{request.method}, up to {request.episodes_per_task} episodes per task"
        case EvaluateRequest():
            return f"{request.episodes_per_task} episodes per task from seed {request.seed}"
        case _:
            return "the episodes of an existing dataset"


def _start(request: TrainRequest, config: RunConfig) -> str:
    if request.init == config.ladder[0].init:
        return f", from {request.init}" if request.init else ""
    return ", from the blessed checkpoint"


def _grows(config: RunConfig) -> bool:
    return isinstance(config.collect, ExpertGrowth)


def _children(request: Request, config: RunConfig, folder: Path) -> Iterator[tuple[str, ...]]:
    """Commands of the processes that the stage starts."""
    match request:
        case TrainRequest():
            dataset = _dataset_to_be(config, Path(request.dataset))
            yield start_command(
                request,
                dataset,
                folder / "training",
                init=request.init,
                policy_type=request.policy_type,
                is_state_only=_grows(config),
                episodes_present=0,
            ).argv
        case EvaluateRequest() if request.env:
            weights = Path(request.checkpoint) / "training/checkpoints/last/pretrained_model"
            yield eval_command(request, str(weights), folder / "candidate")
        case CompareRequest() if request.env:
            weights = Path(request.checkpoint) / "training/checkpoints/last/pretrained_model"
            block = stock_block(request)
            yield eval_command(block, str(weights), folder / "candidate")
            yield eval_command(block, request.baseline, folder / "baseline")
        case EvaluateRequest() | CompareRequest() | ExpertDemos() | ImproveRequest():
            device = "cpu" if isinstance(request, ExpertDemos) else request.device
            yield (sys.executable, "-m", "lefleet.rollouts.worker", device)
        case _:
            return


def _dataset_to_be(config: RunConfig, collected: Path) -> DatasetRecord:
    """What is known beforehand of the data that the collect stage will have made."""
    source = config.collect
    # The first cycle has only its own data, every later one a merge with what was there.
    own = "dataset" if collected.parent.name == "cycle_0" else "merged"
    repo_id = f"local/{own}" if isinstance(source, ExpertGrowth) else source.repo_id
    root = str(collected / own) if isinstance(source, ExpertGrowth) else source.root
    return DatasetRecord(
        repo_id=repo_id,
        root=root,
        revision="",
        episodes=(),
        digest="",
        fps=0,
        frames=0,
        tasks={},
        source="plan",
        total_episodes=0,
    )
