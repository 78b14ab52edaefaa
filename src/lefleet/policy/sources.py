"""Where column names can be found: beside the weights, in the config, in the training's data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lefleet.policy.settings import ContractOverride
from lefleet.records import CheckpointContract, decode
from lefleet.records.checkpoint import are_numbers
from lefleet.stages.contract import CONTRACT_FILE, column_names

MANIFEST = "the manifest"


@dataclass(frozen=True)
class Known:
    """What one source says; empty where it says nothing."""

    source: str
    action_names: tuple[str, ...] = ()
    vectors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cameras: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fps: float = 0.0
    robot_type: str = ""


def sources_of(
    folder: Path, config: Any, override: ContractOverride | None, rename_map: dict[str, str]
) -> list[Known]:
    """All sources that exist, the most trusted first."""
    found = (
        _beside_weights(folder, rename_map),
        _in_config(config),
        _in_dataset(folder, rename_map),
        _in_manifest(override),
    )
    return [known for known in found if known is not None]


def _beside_weights(folder: Path, rename_map: dict[str, str]) -> Known | None:
    file = folder / CONTRACT_FILE
    if not file.is_file():
        return None
    written: CheckpointContract = decode(file.read_bytes(), CheckpointContract, str(file))
    vectors = {key: _unless_numbers(names) for key, names in written.vectors.items()}
    return Known(
        CONTRACT_FILE,
        _unless_numbers(written.action_names),
        _renamed(vectors, rename_map),
        _renamed(written.cameras, rename_map),
        written.fps,
        written.robot_type,
    )


def _unless_numbers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Training writes numbers where its data has no names: that is no knowledge of an order."""
    return () if are_numbers(names) else names


def _in_config(config: Any) -> Known | None:
    """Only the π0 family writes down the names of its actions."""
    names = getattr(config, "action_feature_names", None)
    return Known("config.json", tuple(names)) if names else None


def _in_dataset(folder: Path, rename_map: dict[str, str]) -> Known | None:
    """The data of the training, if it is still on this machine."""
    file = folder / "train_config.json"
    if not file.is_file():
        return None
    dataset = msgspec.json.decode(file.read_bytes()).get("dataset") or {}
    info_file = _root(dataset) / "meta" / "info.json"
    if not info_file.is_file():
        return None
    info = msgspec.json.decode(info_file.read_bytes())
    features = info["features"]
    observed = {key: value for key, value in features.items() if key.startswith("observation.")}
    images = {key for key, value in observed.items() if value["dtype"] in ("image", "video")}
    return Known(
        str(info_file),
        column_names(features["action"]),
        _renamed({k: column_names(v) for k, v in observed.items() if k not in images}, rename_map),
        _renamed({k: tuple(observed[k]["shape"]) for k in images}, rename_map),
        float(info["fps"]),
        info.get("robot_type") or "",
    )


def _root(dataset: dict[str, Any]) -> Path:
    from lerobot.utils.constants import HF_LEROBOT_HOME

    root = dataset.get("root")
    return Path(root) if root else Path(HF_LEROBOT_HOME) / str(dataset.get("repo_id"))


def _in_manifest(override: ContractOverride | None) -> Known | None:
    if override is None:
        return None
    return Known(
        MANIFEST,
        override.action_names,
        override.vectors,
        dict(override.cameras),
        override.fps or 0.0,
        override.robot_type,
    )


def _renamed[T](values: dict[str, T], rename_map: dict[str, str]) -> dict[str, T]:
    """Keys of the training's data to the policy's own."""
    return {rename_map.get(key, key): value for key, value in values.items()}
