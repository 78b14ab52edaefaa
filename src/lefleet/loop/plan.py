"""What a run would do: its stages and the exact child commands, without doing anything."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lefleet.loop.requests import CycleInputs, demonstrations, make_request, stage_folder
from lefleet.loop.state import steps_of_cycle
from lefleet.records import (
    CompareRequest,
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
    for cycle in range(config.budgets.cycles):
        yield ""
        yield f"cycle {cycle}"
        is_decided = False
        for step in steps_of_cycle(config, cycle, has_baseline=cycle > 0, has_blessed=True):
            if step == "decide":
                yield "  decide: baseline, promote, iterate, escalate, rollback or stop"
                is_decided = True
                continue
            blessed = cycle if is_decided else cycle - 1
            yield from _stage_lines(_planned_inputs(config, run_folder, cycle, blessed), step)


def _planned_inputs(
    config: RunConfig, run_folder: Path, cycle: int, blessed_cycle: int
) -> CycleInputs:
    """A cycle in which the checkpoint of `blessed_cycle` is blessed; -1 is before the first."""
    training = stage_folder(run_folder, blessed_cycle, "train") / "training"
    last = f"{config.ladder[0].steps:06d}"
    blessed = str(training / "checkpoints" / last / "pretrained_model")
    return CycleInputs(
        config=config,
        run_folder=run_folder,
        cycle=cycle,
        rung=0,
        blessed=blessed if blessed_cycle >= 0 else "",
        continues=blessed_cycle >= 0,
        gates=(True,) * (cycle - 1),
        mixes={},
    )


def _stage_lines(inputs: CycleInputs, stage: str) -> Iterator[str]:
    request = make_request(inputs, stage)
    folder = stage_folder(inputs.run_folder, inputs.cycle, stage)
    yield f"  {stage}: {_words(request, inputs.config, inputs.cycle)}"
    yield "    " + shlex.join(("lefleet", "stage", "exec", str(folder)))
    for argv in _children(request, inputs.config, folder):
        yield "      " + shlex.join(argv)


def _words(request: Request, config: RunConfig, cycle: int) -> str:
    match request:
        case ExpertDemos():
            growth = config.collect
            total = demonstrations(growth, cycle) if isinstance(growth, ExpertGrowth) else 0
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


def _children(request: Request, config: RunConfig, folder: Path) -> Iterator[tuple[str, ...]]:
    """Commands of the processes that the stage starts."""
    match request:
        case TrainRequest():
            dataset = _planned_data(config, Path(request.dataset))
            yield start_command(
                request,
                dataset,
                folder / "training",
                init=request.init,
                policy_type=request.policy_type,
                is_state_only=isinstance(config.collect, ExpertGrowth),
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


class PlannedData(NamedTuple):
    """What is known beforehand of the data that a collect stage will write."""

    repo_id: str
    root: str
    episodes: tuple[int, ...] = ()


def _planned_data(config: RunConfig, collected: Path) -> PlannedData:
    if not isinstance(config.collect, ExpertGrowth):
        return PlannedData(config.collect.repo_id, config.collect.root)
    # The first cycle has only its own data, every later one a merge with what was there.
    name = "dataset" if collected.parent.name == "cycle_0" else "merged"
    return PlannedData(f"local/{name}", str(collected / name))
