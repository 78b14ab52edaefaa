"""train: LeRobot's training as a child process, resumed where it stopped."""

import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lefleet.durable import write_durably
from lefleet.errors import BadInput, StageFailed
from lefleet.process import launch, oom_kills, stop
from lefleet.records import CheckpointRecord, DatasetRecord, TrainRequest, encode
from lefleet.stages.backbone import needed_weights, require_weights
from lefleet.stages.child_output import failure_of, split_lines
from lefleet.stages.contract import (
    CONTRACT_FILE,
    contract_of,
    is_camera,
    policy_features,
    read_info,
    require_coverage,
)
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.extras import require_policy
from lefleet.stages.folder import StageFolder
from lefleet.stages.lerobot_train import (
    OWNED_FLAGS,
    START_MARK,
    Invocation,
    log_every,
    lost_device,
    parse_bar,
    parse_metrics,
    read_curve,
    resume_command,
    start_command,
)
from lefleet.stages.normalisation import as_trained, require_family
from lefleet.stages.progress import DIGESTING, LOADING, Progress, Update
from lefleet.stages.references import (
    CheckpointReference,
    find_checkpoint,
    find_dataset,
    read_policy_config,
)
from lefleet.stages.state_only import needs_step, require_inputs_of
from lefleet.stages.suitability import Suitability, assess
from lefleet.stages.wandb_guard import WandbGuard, without_wandb

_OUTPUT = "training"
FRESH = "fresh_policy"
"""Where a training begins whose policy LeRobot cannot make itself."""


class _Inputs(NamedTuple):
    """What a training is made of, all of it checked."""

    dataset: DatasetRecord
    info: dict[str, Any]
    init: CheckpointReference | None
    suitability: Suitability

    @property
    def init_path(self) -> str:
        return self.init.path if self.init else ""


def train(request: TrainRequest, stage: StageFolder, progress: Progress) -> CheckpointRecord:
    """Train to the last step, starting from the newest checkpoint in the folder."""
    progress(DIGESTING)
    inputs = _inputs(request)
    _require_decent(request, stage.path)
    stage.pin(dataset=inputs.dataset.digest, init=inputs.init.digest if inputs.init else "")
    output = stage.path / _OUTPUT
    guard = WandbGuard(stage.path, is_wanted=request.wandb)
    while (reached := _last_step(output)) < request.steps:
        is_logged = guard.begin(reached)
        command = _command(request, inputs, stage.path, reached)
        command = command if is_logged or not request.wandb else without_wandb(command)
        with stage.log.open("ab") as log:
            for line in (inputs.suitability.normalisation.sentence(), *inputs.suitability.notes):
                log.write(f"lefleet: {line}\n".encode())
            log.write(f"\n{START_MARK} {reached}\n".encode())
            try:
                _follow(command, request, reached, log, progress)
            except StageFailed as error:
                if not guard.is_to_blame(error):
                    raise
                continue
        progress(DIGESTING)
        break
    record = _record(request, stage, inputs, output)
    return msgspec.structs.replace(record, wandb_problem=guard.problem)


def _inputs(request: TrainRequest) -> _Inputs:
    dataset = find_dataset(request.dataset, "dataset").record
    info = read_info(dataset.root)
    require_coverage(dataset.tasks, request.tasks, request.dataset, info)
    init = find_checkpoint(request.init, "init") if request.init else None
    if init is None:
        require_family(request)
    if request.rename_map and init is None:
        raise BadInput(
            "rename_map: it needs a checkpoint to rename for.",
            "Give init, or leave rename_map out: a fresh policy takes the dataset's own names.",
        )
    checkpoint = read_policy_config(Path(init.path)) if init else None
    if init and checkpoint:
        require_inputs_of(Path(init.path), info["features"], request.rename_map, dataset.root)
    suitability = assess(request, info, Path(dataset.root), checkpoint)
    suitability.require("dataset")
    # Last of what a person can mend, for it takes longest.
    if checkpoint:
        require_policy(checkpoint["type"], "init")
    else:
        require_policy(request.policy_type, "policy_type")
    require_weights(needed_weights(request, info, checkpoint))
    return _Inputs(dataset, info, init, suitability)


def _require_decent(request: TrainRequest, folder: Path) -> None:
    """Refuse what LeRobot's command line would misread."""
    for flag in request.extra_args:
        name = flag.removeprefix("--").partition("=")[0]
        if name in OWNED_FLAGS:
            raise BadInput(f"extra_args: {name} is set by the field {OWNED_FLAGS[name]}.")
    if any(mark in str(folder) for mark in (" #", ": ", "\n")):
        raise BadInput(
            f"out: LeRobot cannot read the path {folder}.", "Choose one without ' #' and ': '."
        )


def _command(request: TrainRequest, inputs: _Inputs, folder: Path, reached: int) -> Invocation:
    init, info, output = inputs.init_path, inputs.info, folder / _OUTPUT
    policy_type = read_policy_type(Path(init)) if init else request.policy_type
    if reached:
        return resume_command(request, last_checkpoint(output), policy_type=policy_type)
    if output.exists():
        shutil.rmtree(output)
    fresh = folder / FRESH if not init and needs_step(policy_type, info["features"]) else None
    command = start_command(
        request,
        inputs.dataset,
        output,
        init=init,
        policy_type=policy_type,
        is_state_only=not any(map(is_camera, policy_features(info).values())),
        episodes_present=info["total_episodes"],
        mapping=inputs.suitability.flag,
        statistics=inputs.suitability.corrections,
        fresh=str(fresh or ""),
    )
    if fresh:
        from lefleet.stages.fresh_policy import write_policy

        write_policy(fresh, policy_type, command.argv, info["features"], request.seed)
    return command


def _follow(
    command: Invocation, request: TrainRequest, reached: int, log: Any, progress: Progress
) -> None:
    """Run the child to its end, copying its output to the log and its progress to the user."""
    before = oom_kills()
    child = launch(
        command.argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        environment=command.environment,
    )
    said: list[str] = []
    loss = ""
    try:
        progress(LOADING)
        for line in _lines(child, log):
            said.append(line)
            if (lost := lost_device(line, request.device)) is not None:
                raise lost
            if metrics := parse_metrics(line):
                if not math.isfinite(metrics[0]):
                    raise _diverged()
                loss = f"loss {metrics[0]:.4g}"
            if (step := parse_bar(line)) is not None:
                progress(Update(reached + step, request.steps, "steps", loss))
        code = child.wait()
    finally:
        stop(child)
        child.stdout.close()  # type: ignore[union-attr]
    if code:
        raise failure_of("Training", code, before, said, f"The whole log is {log.name}.")


def _lines(child: "subprocess.Popen[bytes]", log: Any) -> Iterator[str]:
    assert child.stdout is not None  # noqa: S101
    rest = ""
    while data := child.stdout.read1():  # type: ignore[attr-defined]
        log.write(data)
        log.flush()
        *lines, rest = split_lines(rest + data.decode(errors="replace"))
        yield from lines
    yield rest


def _record(
    request: TrainRequest, stage: StageFolder, inputs: _Inputs, output: Path
) -> CheckpointRecord:
    curve, resumed = read_curve(
        split_lines(stage.log.read_text(errors="replace")), log_every(request)
    )
    final_loss = curve[-1].loss if curve else None
    if curve and final_loss is None:
        raise _diverged()
    folder = last_checkpoint(output) / "pretrained_model"
    config = read_policy_config(folder)
    policy_type = str(config["type"])
    contract = contract_of(inputs.dataset, policy_type, inputs.info)
    write_durably(folder / CONTRACT_FILE, encode(contract))
    return CheckpointRecord(
        path=str(folder),
        digest=checkpoint_digest(folder),
        policy_type=policy_type,
        steps=_last_step(output),
        final_loss=final_loss,
        curve=tuple(curve),
        contract=contract,
        init_digest=inputs.init.digest if inputs.init else "",
        resumed_at=tuple(resumed),
        normalisation=as_trained(inputs.suitability.normalisation, config),
    )


def _diverged() -> StageFailed:
    return StageFailed(
        "Training diverged: the loss is not a number.", "Lower learning_rate, or look at the data."
    )


def read_policy_type(folder: Path) -> str:
    """LeRobot's policy family of a pretrained_model folder."""
    return str(read_policy_config(folder)["type"])


def last_checkpoint(output: Path) -> Path:
    """Folder of the newest complete checkpoint.

    LeRobot points `last` at a checkpoint after it is complete, but removes the old link first.
    Without the link the newest folder may be half written, so the one before it counts.
    """
    link = output / "checkpoints" / "last"
    if link.exists():
        return link.resolve()
    numbered = sorted(path for path in (output / "checkpoints").glob("[0-9]*"))
    return numbered[-2] if len(numbered) > 1 else output / "none"


def _last_step(output: Path) -> int:
    """Step of the newest complete checkpoint, 0 without one."""
    file = last_checkpoint(output) / "training_state" / "training_step.json"
    return int(msgspec.json.decode(file.read_bytes())["step"]) if file.is_file() else 0
