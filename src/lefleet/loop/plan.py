"""What a run would do: its stages as commands, and LeRobot's below them, without doing anything."""

import os
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.devices.names import kept_to
from lefleet.loop.requests import (
    CycleInputs,
    demonstrations,
    make_request,
    scheduled,
    stage_folder,
)
from lefleet.loop.state import first_rung, is_same
from lefleet.loop.steps import steps_of_cycle
from lefleet.loop.training import training_of
from lefleet.records import (
    CompareRequest,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ExpertGrowth,
    ImproveRequest,
    Request,
    RunConfig,
    RunOrigin,
    TrainRequest,
)
from lefleet.stages.lerobot_train import start_command
from lefleet.stages.train import FRESH
from lefleet.stats import gate_level


def plan_lines(
    config: RunConfig, run_folder: Path, origin: RunOrigin | None = None
) -> Iterator[str]:
    """Lines for a person; commands can be copied."""
    yield f"run {config.name}: at most {config.budgets.cycles} cycles on {', '.join(config.tasks)}"
    yield "rungs: " + ", then ".join(f"{rung.name} ({rung.policy_type})" for rung in config.ladder)
    if origin is not None:
        yield from _origin_lines(config, origin)
    yield from _governed_lines(config)
    if config.budgets.cycles > 1:
        rung = config.ladder[first_rung(config, origin)].name
        yield f"shown as if the checkpoint of every cycle were blessed, all on rung {rung}"
    for cycle in range(config.budgets.cycles):
        yield ""
        yield f"cycle {cycle}"
        is_decided = False
        has_gate = cycle > 0 or origin is not None
        for step in _planned_steps(config, cycle, has_gate=has_gate):
            if step in ("propose", "settle"):
                continue
            if step == "decide":
                yield "  decide: baseline, promote, iterate, escalate, rollback or stop"
                is_decided = True
                continue
            blessed = cycle if is_decided else cycle - 1
            yield from _stage_lines(
                _planned_inputs(config, run_folder, origin, cycle, blessed), step
            )


def _governed_lines(config: RunConfig) -> Iterator[str]:
    """What a proposal or a person may change of this plan."""
    if config.propose.split == "failure":
        yield "demonstrations: shown split evenly; the run gives more to tasks that fail more often"
    if config.propose.model:
        yield f"model: {config.propose.model} is asked before each cycle, within the same limits"
    if config.improve.method == "auto":
        yield "improve: shown as corrections; the run chooses what helped before, or none"
    plan = config.approvals
    modes = {"promotions": plan.promote, "escalations": plan.escalate}
    if waiting := [name for name, mode in modes.items() if mode == "human"]:
        yield f"approvals: {' and '.join(waiting)} wait for a person"


def _planned_steps(config: RunConfig, cycle: int, *, has_gate: bool) -> tuple[str, ...]:
    return steps_of_cycle(
        config,
        cycle,
        has_gate=has_gate,
        has_blessed=True,
        asks_model=bool(config.propose.model),
        may_improve=True,
    )


def _origin_lines(config: RunConfig, origin: RunOrigin) -> Iterator[str]:
    rate = origin.result.overall
    yield (
        f"from {origin.run}:{origin.cycle}: blessed checkpoint {origin.checkpoint.digest[:12]}, "
        f"{rate.successes} of {rate.episodes} episodes successful"
    )
    if isinstance(config.collect, ExpertGrowth):
        yield f"  data: {len(origin.data)} datasets of {origin.run}, which every cycle adds to"
    else:
        yield f"  data: none of {origin.run}; this config names a dataset of its own"
    if is_same(config.ladder[first_rung(config, origin)], origin.rung):
        yield f"  training: continues from that checkpoint, of rung {origin.rung.name}"
    else:
        yield (
            f"  training: begins anew, because no rung has the policy of {origin.rung.name}; that "
            "checkpoint is the baseline"
        )


def _planned_inputs(
    config: RunConfig,
    run_folder: Path,
    origin: RunOrigin | None,
    cycle: int,
    blessed_cycle: int,
) -> CycleInputs:
    """A cycle in which the checkpoint of `blessed_cycle` is blessed; -1 is before the first."""
    rung = first_rung(config, origin)
    training = stage_folder(run_folder, blessed_cycle, "train") / "training"
    last = f"{config.ladder[rung].steps:06d}"
    blessed = str(training / "checkpoints" / last / "pretrained_model")
    continues = True
    if blessed_cycle < 0:
        blessed = origin.checkpoint.path if origin else ""
        continues = origin is not None and is_same(config.ladder[rung], origin.rung)
    first = 0 if origin else 1
    return CycleInputs(
        config=config,
        run_folder=run_folder,
        cycle=cycle,
        rung=rung,
        blessed=blessed,
        continues=continues,
        origin=origin,
        level=gate_level(
            config.gate.guarantee,
            config.gate.alpha,
            config.budgets.cycles - first,
            (True,) * (cycle - first),
        ),
        baseline_rate=None,
        mixes={},
        proposal=None,
    )


def _stage_lines(inputs: CycleInputs, stage: str) -> Iterator[str]:
    request = make_request(inputs, stage)
    folder = stage_folder(inputs.run_folder, inputs.cycle, stage)
    yield f"  {stage}: {_words(request, inputs)}"
    if isinstance(request, TrainRequest):
        known = training_of(inputs.config, request)
        yield from (f"    {line}" for line in (known.words,) if line)
    if command := by_hand(request, folder):
        yield "    " + shlex.join(command)
    for argv in _children(request, inputs, folder):
        yield "      " + shlex.join(argv)


def _words(request: Request, inputs: CycleInputs) -> str:
    match request:
        case ExpertDemos():
            growth = inputs.config.collect
            total = demonstrations(growth, inputs.cycle) if isinstance(growth, ExpertGrowth) else 0
            beside = f" beside those of {inputs.origin.run}" if inputs.origin else ""
            new = f"{request.episodes_per_task} new demonstrations per task"
            seen = f", with images of {', '.join(request.cameras)}" if request.cameras else ""
            return f"{new}, {total} in all{beside}{seen}"
        case TrainRequest():
            return f"{request.steps} steps of {request.policy_type}{_start(request, inputs)}"
        case CompareRequest():
            return (
                f"candidate and baseline on at most {request.max_pairs} fresh pairs from seed "
                f"{request.seed}, at level {request.alpha_better:.2g}"
            )
        case ImproveRequest():
            return f"{request.method}, up to {request.episodes_per_task} episodes per task"
        case EvaluateRequest():
            return f"{request.episodes_per_task} episodes per task from seed {request.seed}"
        case ExistingDataset(episodes_per_task=number) if number:
            return f"{number} episodes per task of an existing dataset{_more(inputs)}"
        case _:
            return "the episodes of an existing dataset"


def _more(inputs: CycleInputs) -> str:
    """What a growing selection adds to that of the cycle before."""
    source, cycle = inputs.config.collect, inputs.cycle
    if isinstance(source, ExpertGrowth) or not isinstance(source.episodes_per_task, tuple):
        return ", the same in every cycle"
    before = scheduled(source.episodes_per_task, cycle - 1)
    new = scheduled(source.episodes_per_task, cycle) - before
    return f": the {before} of the cycle before and {new} more" if cycle else ""


def _start(request: TrainRequest, inputs: CycleInputs) -> str:
    if request.init == inputs.config.ladder[inputs.rung].init:
        return f", from {request.init}" if request.init else ""
    return ", from the blessed checkpoint"


def _children(request: Request, inputs: CycleInputs, folder: Path) -> Iterator[tuple[str, ...]]:
    """LeRobot's programs that the stage starts."""
    match request:
        case TrainRequest():
            dataset = _planned_data(inputs, Path(request.dataset))
            known = training_of(inputs.config, request)
            argv = start_command(
                request,
                dataset,
                folder / "training",
                init=request.init,
                policy_type=request.policy_type,
                is_state_only=known.is_state_only,
                episodes_present=0,
                mapping=known.flag,
                fresh=str(folder / FRESH) if known.has_fresh_policy else "",
            ).argv
            kept = kept_to(request.device, os.environ)
            yield (*(("env",) if kept else ()), *(f"{k}={v}" for k, v in kept.items()), *argv)
        case _:
            return


_BY_HAND: dict[type, tuple[str, ...]] = {
    ExpertDemos: ("collect", "expert"),
    ExistingDataset: ("collect", "dataset"),
    TrainRequest: ("train",),
    EvaluateRequest: ("eval",),
    ImproveRequest: ("improve",),
}


def by_hand(request: Request, folder: Path) -> tuple[str, ...]:
    """The command that runs a stage alone; none for a gate, whose seeds only its run may use."""
    if type(request) not in _BY_HAND:
        return ()
    flags: list[str] = []
    further: tuple[str, ...] = ()
    for field in msgspec.structs.fields(request):
        value = getattr(request, field.name)
        factory = field.default_factory
        default = field.default if factory is msgspec.NODEFAULT else factory()
        name = field.name.replace("_", "-")
        if value == default:
            continue
        if field.name == "extra_args":
            further = ("--", *value)
        elif isinstance(value, bool):
            flags.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, dict):
            flags += [f"--{name}", *chain.from_iterable(value.items())]
        else:
            flags += [f"--{name}", *(value if isinstance(value, tuple) else (str(value),))]
    return ("lefleet", *_BY_HAND[type(request)], *flags, "--out", str(folder), *further)


class PlannedData(NamedTuple):
    """What is known beforehand of the data that a collect stage will write."""

    repo_id: str
    root: str
    episodes: tuple[int, ...] = ()


def _planned_data(inputs: CycleInputs, collected: Path) -> PlannedData:
    source = inputs.config.collect
    if not isinstance(source, ExpertGrowth):
        return PlannedData(source.repo_id, source.root)
    # A first cycle has only its own data, every other one a merge with what was there.
    name = "merged" if inputs.cycle or inputs.origin else "dataset"
    return PlannedData(f"local/{name}", str(collected / name))
