"""What a run would do: its stages and the exact child commands, without doing anything."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from lefleet.loop.requests import demonstrations, make_request, stage_folder
from lefleet.loop.state import CycleState, RunState
from lefleet.records import (
    DatasetRecord,
    EvaluateRequest,
    ExpertDemos,
    ExpertGrowth,
    Request,
    RunConfig,
    TrainRequest,
)
from lefleet.stages.stock_eval import eval_command
from lefleet.stages.train_command import start_command


def plan_lines(config: RunConfig, run_folder: Path) -> Iterator[str]:
    """Lines for a person; commands can be copied."""
    yield f"run {config.name}: at most {config.budgets.cycles} cycles on {', '.join(config.tasks)}"
    yield "rungs: " + ", then ".join(f"{rung.name} ({rung.policy_type})" for rung in config.ladder)
    for cycle in range(config.budgets.cycles):
        yield ""
        yield f"cycle {cycle}"
        state = RunState(config, [CycleState(cycle, {}, None)], 0.0, stop_requested=False)
        for stage in ("collect", "train", "evaluate"):
            request = make_request(state, run_folder, cycle, stage)
            folder = stage_folder(run_folder, cycle, stage)
            yield f"  {stage}: {_words(request, config, cycle)}"
            yield "    " + shlex.join(("lefleet", "stage", "exec", str(folder)))
            for argv in _children(request, config, folder):
                yield "      " + shlex.join(argv)
        if cycle:
            pairs = config.gate.pairs_per_task
            yield f"  gate: candidate and baseline on {pairs} fresh seeds per task"
        yield "  decide: baseline, promote, iterate, escalate, rollback or stop"
        if config.improve.method != "none" and cycle + 1 < config.budgets.cycles:
            yield f"  improve: {config.improve.method}, if a checkpoint is blessed"


def _words(request: Request, config: RunConfig, cycle: int) -> str:
    match request:
        case ExpertDemos():
            total = demonstrations(config.collect, cycle) if _grows(config) else 0  # type: ignore[arg-type]
            return f"{request.episodes_per_task} new demonstrations per task, {total} in all"
        case TrainRequest():
            start = "" if not cycle else ", from the blessed checkpoint where there is one"
            return f"{request.steps} steps of {request.policy_type}{start}"
        case EvaluateRequest():
            return f"{request.episodes_per_task} episodes per task from seed {request.seed}"
        case _:
            return "the episodes of an existing dataset"


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
        case EvaluateRequest() | ExpertDemos():
            device = request.device if isinstance(request, EvaluateRequest) else "cpu"
            yield (sys.executable, "-m", "lefleet.rollouts.worker", device)
        case _:
            return


def _dataset_to_be(config: RunConfig, collected: Path) -> DatasetRecord:
    """What is known beforehand of the data that the collect stage will have made."""
    source = config.collect
    repo_id = "local/dataset" if isinstance(source, ExpertGrowth) else source.repo_id
    root = str(collected / "dataset") if isinstance(source, ExpertGrowth) else source.root
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
