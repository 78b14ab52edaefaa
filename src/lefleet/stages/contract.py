"""The contract of a checkpoint: what every column of its inputs and outputs means."""

from pathlib import Path
from typing import Any

import msgspec

from lefleet.records import CheckpointContract, DatasetRecord
from lefleet.records.checkpoint import column_numbers

CONTRACT_FILE = "lefleet.json"

_IMAGES = ("image", "video")


def read_info(dataset: DatasetRecord) -> dict[str, Any]:
    """The dataset's own description of its features."""
    info: dict[str, Any] = msgspec.json.decode(
        (Path(dataset.root) / "meta" / "info.json").read_bytes()
    )
    return info


def contract_of(
    dataset: DatasetRecord, policy_type: str, info: dict[str, Any]
) -> CheckpointContract:
    """Names and shapes come from the data that the policy was trained on."""
    features = info["features"]
    observed = {key: value for key, value in features.items() if key.startswith("observation.")}
    return CheckpointContract(
        action_names=_names(features["action"]),
        vectors={k: _names(v) for k, v in observed.items() if v["dtype"] not in _IMAGES},
        cameras={k: tuple(v["shape"]) for k, v in observed.items() if v["dtype"] in _IMAGES},
        fps=int(info["fps"]),
        policy_type=policy_type,
        robot_type=info.get("robot_type") or "",
        tasks=tuple(dataset.tasks),
        dataset_digest=dataset.digest,
    )


def column_names(feature: dict[str, Any]) -> tuple[str, ...]:
    """Names of a vector's columns: a list, lists under keys, places by name; empty if unnamed."""
    names = feature.get("names") or ()
    if isinstance(names, dict) and all(isinstance(place, int) for place in names.values()):
        return tuple(sorted(names, key=names.__getitem__))
    if isinstance(names, dict):
        return tuple(name for group in names.values() for name in group)
    return tuple(names)


def _names(feature: dict[str, Any]) -> tuple[str, ...]:
    return column_names(feature) or column_numbers(feature["shape"][0])
