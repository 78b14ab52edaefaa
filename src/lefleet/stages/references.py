"""What a user names, to what it means: stage folders, LeRobot folders, hub ids."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from lefleet.errors import MISSING, BadInput, why_not_a_folder
from lefleet.records import CheckpointRecord, DatasetRecord, MixRecord
from lefleet.records.checkpoint import made_inputs
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.folder import RECORD, REQUEST, StageFolder, read_record

PREPROCESSOR = "policy_preprocessor.json"
_RENAMING = "rename_observations_processor"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_PRETRAINED = ("", "pretrained_model", "checkpoints/last/pretrained_model")
_DEPTH = 4
"""Of training/checkpoints/STEP/pretrained_model in a train stage's folder."""


class CheckpointReference(NamedTuple):
    """A checkpoint whose files are on this machine."""

    path: str
    digest: str

    def digest_now(self) -> str:
        """Of its files as they are now; cheap where they have not changed."""
        return checkpoint_digest(Path(self.path))


def verify_pins(stage: StageFolder, **checkpoints: CheckpointReference) -> Callable[[], None]:
    """A function that raises StageFailed where a pinned checkpoint's files have changed since."""
    return lambda: stage.pin(**{name: found.digest_now() for name, found in checkpoints.items()})


class DatasetReference(NamedTuple):
    """Data to train on or to add to."""

    record: DatasetRecord
    self_generated: int
    """Episodes of it that a policy made, known where it is a mix."""


def find_checkpoint(name: str, field: str, revision: str = "main") -> CheckpointReference:
    """The checkpoint that `name` stands for; `field` is what the request calls it.

    `revision` is the hub's; folders have none.
    """
    found = checkpoint_folder(name, field)
    if found is None:
        return _from_hub(name, field, revision)
    digest = checkpoint_digest(found)
    _require_unchanged(found, digest, field)
    return CheckpointReference(str(found), digest)


def checkpoint_folder(name: str, field: str) -> Path | None:
    """The pretrained_model folder of a checkpoint on this machine; None for a hub id."""
    problem = why_not_a_folder(name)
    if not problem:
        folder = Path(name).resolve()
        record = read_record(folder)
        if isinstance(record, CheckpointRecord):
            return _weights(folder, record, field)
        return _pretrained(folder, field)
    if problem != MISSING or not is_hub_id(name):
        raise BadInput(f"{field}: {name} {problem}.", _CHECKPOINT_REMEDY)
    return None


def read_policy_config(folder: Path) -> dict[str, Any]:
    """The policy's settings in a pretrained_model folder."""
    file = folder / "config.json"
    try:
        config = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInput(f"{file}: it cannot be read: {error}.", _CHECKPOINT_REMEDY) from error
    if not isinstance(config.get("type"), str):
        raise BadInput(f"{file}: it names no policy type.", _CHECKPOINT_REMEDY)
    return config


def made_by(checkpoint: Path) -> frozenset[str]:
    """Inputs that the checkpoint's own preprocessor makes."""
    file = checkpoint / PREPROCESSOR
    return made_inputs(msgspec.json.decode(file.read_bytes())) if file.is_file() else frozenset()


def renames_inputs(checkpoint: Path) -> bool:
    """Whether the checkpoint's own preprocessor renames observations."""
    file = checkpoint / PREPROCESSOR
    if not file.is_file():
        return False
    steps: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes()).get("steps", [])
    return any(
        step.get("registry_name") == _RENAMING and step.get("config", {}).get("rename_map")
        for step in steps
    )


def is_hub_id(name: str) -> bool:
    """Whether `name` looks like user/name on the hub."""
    return _HUB_ID.fullmatch(name) is not None


def find_dataset(name: str, field: str) -> DatasetReference:
    """The dataset that `name` stands for; `field` is what the request calls it."""
    require_dataset_folder(name, field)
    folder = Path(name).resolve()
    match read_record(folder):
        case DatasetRecord() as record:
            return DatasetReference(_where_it_is(folder, record, field), 0)
        case MixRecord() as mix:
            return DatasetReference(_where_it_is(folder, mix.dataset, field), mix.self_generated)
        case _:
            pass
    if not (folder / "meta" / "info.json").is_file():
        raise BadInput(f"{field}: {_why_not(folder, 'dataset')}", _DATASET_REMEDY)
    from lefleet.stages.datasets import describe_dataset, local_metadata

    metadata = local_metadata(folder)
    record = describe_dataset(metadata, range(metadata.total_episodes), source="dataset")
    return DatasetReference(record, 0)


def dataset_root(name: str) -> Path | None:
    """The LeRobotDataset that a folder is, or that its stage made; None for any other folder."""
    if why_not_a_folder(name):
        return None
    folder = Path(name).resolve()
    match read_record(folder):
        case DatasetRecord() as record:
            return Path(_where_it_is(folder, record, "name").root)
        case MixRecord() as mix:
            return Path(_where_it_is(folder, mix.dataset, "name").root)
        case _:
            return folder if (folder / "meta" / "info.json").is_file() else None


def cached_snapshot(repo_id: str) -> tuple[Literal["dataset", "checkpoint"], Path]:
    """A dataset or a checkpoint of the hub whose files are on this machine."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import HF_HOME

    home = Path(os.environ.get("HF_LEROBOT_HOME") or f"{HF_HOME}/lerobot").expanduser()
    info = "meta/info.json"
    if (home / repo_id / info).is_file():
        return "dataset", home / repo_id
    for cache in (home / "hub", None):
        found = try_to_load_from_cache(repo_id, info, cache_dir=cache, repo_type="dataset")
        if isinstance(found, str):
            return "dataset", Path(found).parents[1]
    found = try_to_load_from_cache(repo_id, "config.json")
    if isinstance(found, str):
        return "checkpoint", Path(found).parent
    raise BadInput(
        f"name: {repo_id} is no folder here, and not in the cache of the hub.",
        f"Load it first, as a dataset (lefleet collect dataset --repo-id {repo_id}) or as a "
        f"checkpoint (hf download {repo_id}).",
    )


def require_dataset_folder(name: str, field: str) -> None:
    """Raise BadInput where there is no folder of this name that can be read."""
    if problem := why_not_a_folder(name):
        raise BadInput(f"{field}: {name} {problem}.", _DATASET_REMEDY)


_CHECKPOINT_REMEDY = (
    "Name a finished train stage folder, a pretrained_model folder, or a hub id as user/name."
)
_DATASET_REMEDY = "Name a finished collect or improve stage folder, or a LeRobotDataset folder."


def _weights(folder: Path, record: CheckpointRecord, field: str) -> Path:
    """The checkpoint inside its stage folder, wherever that has been moved to."""
    inside = folder.joinpath(*Path(record.path).parts[-_DEPTH:])
    if not (inside / "config.json").is_file():
        raise BadInput(f"{field}: the weights in {inside} are missing.", _CHECKPOINT_REMEDY)
    return inside


def _pretrained(folder: Path, field: str) -> Path:
    """The pretrained_model folder that `folder` is, or that is in it."""
    for inside in _PRETRAINED:
        if (folder / inside / "config.json").is_file():
            return (folder / inside).resolve()
    raise BadInput(f"{field}: {_why_not(folder, 'checkpoint')}", _CHECKPOINT_REMEDY)


def _require_unchanged(weights: Path, digest: str, field: str) -> None:
    """Raise BadInput where a training's checkpoint is no longer what its record says."""
    stage = weights.parents[_DEPTH - 1] if len(weights.parts) > _DEPTH else weights
    record = read_record(stage)
    if not isinstance(record, CheckpointRecord) or record.digest == digest:
        return
    if Path(record.path).parts[-_DEPTH:] == weights.parts[-_DEPTH:]:
        raise BadInput(
            f"{field}: the files in {weights} have changed since their training ended (digest "
            f"{digest[:12]} now, {record.digest[:12]} in {stage / RECORD}).",
            "Restore them, or copy the folder elsewhere and name the copy.",
        )


def _where_it_is(folder: Path, record: DatasetRecord, field: str) -> DatasetRecord:
    """The record with the dataset's place of today: in its stage folder, or where it was."""
    inside = folder / Path(record.root).name
    for root in (inside, Path(record.root)):
        if (root / "meta" / "info.json").is_file():
            return msgspec.structs.replace(record, root=str(root))
    raise BadInput(f"{field}: the dataset in {record.root} is missing.", _DATASET_REMEDY)


def _why_not(folder: Path, kind: str) -> str:
    if read_record(folder) is None and (folder / REQUEST).exists():
        return f"the stage in {folder} is not finished."
    return f"{folder} holds no {kind}."


def _from_hub(name: str, field: str, revision: str) -> CheckpointReference:
    from huggingface_hub import snapshot_download

    try:
        path = Path(snapshot_download(name, revision=revision))
    except Exception as error:
        raise BadInput(
            f"{field}: {name} is not a folder here and could not be loaded from the hub at "
            f"revision {revision} ({type(error).__name__}).",
            _CHECKPOINT_REMEDY,
        ) from error
    return CheckpointReference(str(path), checkpoint_digest(path))
