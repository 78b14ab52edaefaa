"""inspect: what is in a dataset or a checkpoint, what would be trained on it, what is refused."""

from dataclasses import dataclass
from typing import Annotated

from rich.text import Text
from tyro.conf import Positional, arg

from lefleet.cli.checkpoints import choose_checkpoint
from lefleet.cli.display import console, table
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.errors import BadInput
from lefleet.queries.inspect import (
    InspectedCheckpoint,
    InspectedDataset,
    InspectedVector,
    PlannedTraining,
    inspect_checkpoint,
    inspect_dataset,
)
from lefleet.stages.references import cached_snapshot, checkpoint_folder, dataset_root

_MOST_TASKS = 20


@dataclass(frozen=True, kw_only=True)
class InspectCommand(WorkdirOptions):
    """Show what is in a dataset or a checkpoint: frames, tasks, columns with their ranges, cameras;
    what would be trained on it, what would be refused, and what is missing for a contract. Reads
    metadata only."""

    name: Annotated[str, Positional, arg(metavar="DATASET|CHECKPOINT")]
    """Folder of a dataset, of a checkpoint or of a stage; RUN (its blessed checkpoint), RUN:CYCLE,
    blessed; or a hub id whose files are in the cache."""
    policy_type: str = "act"
    """LeRobot policy family that would be trained on a dataset."""


INSPECT_COMMANDS: dict[str, type[OutputOptions]] = {"inspect": InspectCommand}


def inspect(command: InspectCommand) -> int:
    """Print what was found. What a training would refuse is part of the answer, and no error."""
    found = _find(command)
    if command.json:
        print_json(found)
    elif isinstance(found, InspectedDataset):
        _show_dataset(found)
    else:
        _show_checkpoint(found)
    return 0


def _find(command: InspectCommand) -> InspectedDataset | InspectedCheckpoint:
    chosen = choose_checkpoint(command.name, command.workdir, "name")
    if chosen.origin == "hub":
        kind, folder = cached_snapshot(chosen.location)
        if kind == "dataset":
            return inspect_dataset(folder, command.policy_type)
        return inspect_checkpoint(folder)
    if (root := dataset_root(chosen.location)) is not None:
        return inspect_dataset(root, command.policy_type)
    try:
        weights = checkpoint_folder(chosen.location, "name")
    except BadInput as error:
        raise BadInput(_as_neither(error.problem), _REMEDY) from error
    assert weights is not None  # noqa: S101 - what does not exist is a hub id, above
    return inspect_checkpoint(weights)


_REMEDY = (
    "A dataset's folder has meta/info.json and data/, a checkpoint's config.json and weights. "
    "Folders of finished collect, train and improve stages work too."
)


def _as_neither(problem: str) -> str:
    return problem.replace("holds no checkpoint", "is neither a dataset nor a checkpoint")


def _show_dataset(found: InspectedDataset) -> None:
    out = console()
    robot = printable(found.robot_type) or "a robot without a type"
    size = f"{found.episodes} episodes, {found.frames} frames at {found.fps:g} fps"
    out.print(f"dataset of {robot}: {size}", style="bold")
    for text, count in list(found.tasks.items())[:_MOST_TASKS]:
        out.print(f"  {count} x {printable(text) or '(no task text)'}")
    if len(found.tasks) > _MOST_TASKS:
        out.print(f"  and {len(found.tasks) - _MOST_TASKS} more tasks")
    for vector in found.vectors:
        _show_vector(vector)
    for camera in found.cameras:
        out.print(f"{printable(camera.key)}: {_shape(camera.shape)}, {camera.dtype}")
    _show_training(found.training)
    _show_lacks(found.contract_lacks)
    out.print(found.root, style="dim")


def _show_vector(vector: InspectedVector) -> None:
    out = console()
    rows = table(printable(vector.key))
    for name in ("from", "to", "mean", "std"):
        rows.add_column(name, justify="right")
    for one in vector.columns:
        numbers = (one.low, one.high, one.mean, one.std)
        rows.add_row(Text(printable(one.name)), *map(_number, numbers))
    out.print(rows)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _show_training(training: PlannedTraining) -> None:
    out = console()
    small = " (LeFleet's small state policy)" if training.is_small else ""
    out.print(f"lefleet train would train {training.policy_type}{small}")
    if training.normalisation is not None:
        out.print(f"  {training.normalisation.sentence()}")
    if training.weights:
        out.print(f"  begins with {training.weights}")
    for note in training.notes:
        out.print(f"  note: {printable(note)}")
    for one in training.refused:
        out.print(f"  refused: {printable(one.problem)} {printable(one.remedy)}")


def _show_lacks(lacks: tuple[str, ...]) -> None:
    if lacks:
        console().print(f"missing for a contract: {'; '.join(map(printable, lacks))}")


def _show_checkpoint(found: InspectedCheckpoint) -> None:
    out = console()
    loss = "" if found.final_loss is None else f", loss {found.final_loss:.4g}"
    trained = f" after {found.steps} steps{loss}" if found.steps else ""
    out.print(f"checkpoint of {found.policy_type}{trained}", style="bold")
    for side, features in (("in", found.inputs), ("out", found.outputs)):
        for key, shape in features.items():
            names = _names(found, key)
            out.print(f"  {side}: {printable(key)} {_shape(shape)}{names}")
    if found.chunk_size:
        out.print(f"  chunks of {found.chunk_size} actions")
    out.print(f"  {found.normalisation.sentence()}")
    if (contract := found.contract) is not None:
        out.print(
            f"  trained on {printable(contract.robot_type) or 'unknown'} at {contract.fps} fps"
        )
        for text in contract.tasks[:_MOST_TASKS]:
            out.print(f"  task: {printable(text)}")
    _show_lacks(found.contract_lacks)
    out.print(found.path, style="dim")


def _names(found: InspectedCheckpoint, key: str) -> str:
    if found.contract is None:
        return ""
    names = {"action": found.contract.action_names, **found.contract.vectors}.get(key, ())
    return f": {printable(', '.join(names))}" if names else ""
