"""train: LeRobot's training as a child process, resumed where it stopped."""

import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput, StageFailed
from lefleet.process import launch, oom_kills, stop
from lefleet.records import CheckpointRecord, DatasetRecord, TrainRequest, encode
from lefleet.stages.contract import CONTRACT_FILE, contract_of, read_info, require_coverage
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.folder import StageFolder, write_durably
from lefleet.stages.lerobot_train import (
    OWNED_FLAGS,
    START_MARK,
    Invocation,
    failure_of,
    log_every,
    parse_bar,
    parse_metrics,
    read_curve,
    resume_command,
    split_lines,
    start_command,
)
from lefleet.stages.progress import DIGESTING, LOADING, Progress, Update
from lefleet.stages.references import CheckpointReference, find_checkpoint, find_dataset


def train(request: TrainRequest, stage: StageFolder, progress: Progress) -> CheckpointRecord:
    """Train to the last step, starting from the newest checkpoint in the folder."""
    progress(DIGESTING)
    dataset = find_dataset(request.dataset, "dataset").record
    require_coverage(dataset.tasks, request.tasks, request.dataset)
    init = find_checkpoint(request.init, "init") if request.init else None
    if request.rename_map and init is None:
        raise BadInput(
            "rename_map: it needs a checkpoint to rename for.",
            "Give init, or leave rename_map out: a fresh policy takes the dataset's own names.",
        )
    _require_decent(request, stage.path)
    stage.pin(dataset=dataset.digest, init=init.digest if init else "")
    output = stage.path / "training"
    reached = _last_step(output)
    if reached < request.steps:
        command = _command(request, dataset, init, output, reached)
        with stage.log.open("ab") as log:
            log.write(f"\n{START_MARK} {reached}\n".encode())
            _follow(command, request, reached, log, progress)
        progress(DIGESTING)
    return _record(request, stage, dataset, init, output)


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


def _command(
    request: TrainRequest,
    dataset: DatasetRecord,
    init: CheckpointReference | None,
    output: Path,
    reached: int,
) -> Invocation:
    policy_type = read_policy_type(Path(init.path)) if init else request.policy_type
    if reached:
        return resume_command(request, last_checkpoint(output), policy_type=policy_type)
    if output.exists():
        shutil.rmtree(output)
    info = read_info(dataset)
    return start_command(
        request,
        dataset,
        output,
        init=init.path if init else "",
        policy_type=policy_type,
        is_state_only=not contract_of(dataset, "", info).cameras,
        episodes_present=info["total_episodes"],
    )


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
    request: TrainRequest,
    stage: StageFolder,
    dataset: DatasetRecord,
    init: CheckpointReference | None,
    output: Path,
) -> CheckpointRecord:
    curve, resumed = read_curve(
        split_lines(stage.log.read_text(errors="replace")), log_every(request)
    )
    final_loss = curve[-1].loss if curve else None
    if curve and final_loss is None:
        raise _diverged()
    folder = last_checkpoint(output) / "pretrained_model"
    policy_type = read_policy_type(folder)
    contract = contract_of(dataset, policy_type, read_info(dataset))
    write_durably(folder / CONTRACT_FILE, encode(contract))
    return CheckpointRecord(
        path=str(folder),
        digest=checkpoint_digest(folder),
        policy_type=policy_type,
        steps=_last_step(output),
        final_loss=final_loss,
        curve=tuple(curve),
        contract=contract,
        init_digest=init.digest if init else "",
        resumed_at=tuple(resumed),
    )


def _diverged() -> StageFailed:
    return StageFailed(
        "Training diverged: the loss is not a number.", "Lower learning_rate, or look at the data."
    )


def read_policy_type(folder: Path) -> str:
    """LeRobot's policy family of a pretrained_model folder."""
    return str(msgspec.json.decode((folder / "config.json").read_bytes())["type"])


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
