"""What columns and tasks mean, and whether policy, data and simulation agree about it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.records import CheckpointContract, DatasetRecord
from lefleet.records.checkpoint import column_numbers
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, ROBOT_TYPE, STATE_NAMES
from lefleet.sim.tasks import BY_INSTRUCTION, TASK_SETS, TASKS
from lefleet.stages.references import CheckpointReference

CONTRACT_FILE = "lefleet.json"
FEATURES: dict[str, dict[str, Any]] = {
    key: {"dtype": "float32", "shape": (len(names),), "names": list(names)}
    for key, names in (
        ("action", ACTION_NAMES),
        ("observation.state", STATE_NAMES),
        ("observation.environment_state", ENVIRONMENT_NAMES),
    )
}
"""How episodes of the simulation lie in a dataset."""

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


def task_text(task: str) -> str:
    """The text that stands for `task` in a dataset: the instruction of a MetaWorld task."""
    known = TASKS.get(task.removesuffix("-v3"))
    return known.instruction if known else task


def wanted_texts(tasks: Iterable[str]) -> tuple[str, ...]:
    """Task texts for names, task sets, or texts of the dataset's own."""
    names = [member for task in tasks for member in TASK_SETS.get(task.lower(), (task,))]
    return tuple(dict.fromkeys(task_text(name) for name in names))


def task_name(text: str) -> str:
    """The short name of a dataset's task text."""
    return BY_INSTRUCTION.get(text, text)


def require_coverage(available: Mapping[str, int], wanted: Iterable[str], where: str) -> None:
    """Raise BadInput naming the tasks of `wanted` that `available` (episodes by text) lacks."""
    missing = [task_name(text) for text in wanted_texts(wanted) if not available.get(text)]
    if not missing:
        return
    present = ", ".join(f"{task_name(text)} ({count})" for text, count in available.items())
    raise BadInput(
        f"tasks: {where} has no episode of {', '.join(missing)}.",
        f"It has {present or 'no episodes'}. Collect the missing tasks, or leave them out.",
    )


def require_simulable(checkpoint: CheckpointReference, field: str) -> None:
    """Raise BadInput naming what the policy wants and the simulation does not have."""
    config = msgspec.json.decode((Path(checkpoint.path) / "config.json").read_bytes())
    for side, start in (("input_features", "observation."), ("output_features", "action")):
        known = {key: list(FEATURES[key]["shape"]) for key in FEATURES if key.startswith(start)}
        for key, feature in (config.get(side) or {}).items():
            if known.get(key) != feature["shape"]:
                there = (
                    f", the simulation's {known[key]}"
                    if key in known
                    else (", and does not exist in the simulation")
                )
                raise BadInput(
                    f"{field}: the policy's {key} has shape {feature['shape']}{there}.",
                    "Use a policy trained on data of lefleet's simulation.",
                )


def require_same_shape(dataset: DatasetRecord, field: str) -> None:
    """Raise BadInput where episodes of the simulation cannot be merged into `dataset`."""
    info = read_info(dataset)
    ours = {"fps": FPS, "robot_type": ROBOT_TYPE}
    differing = [name for name, value in ours.items() if info.get(name) != value]
    features = {
        k: v for k, v in info["features"].items() if k.startswith(("observation.", "action"))
    }
    differing += [key for key in FEATURES.keys() | features.keys() if not _is_same(features, key)]
    if differing:
        raise BadInput(
            f"{field}: {dataset.root} differs from the simulation in {', '.join(differing)}.",
            "Only data of lefleet's simulation can be added to.",
        )


def _is_same(features: dict[str, Any], key: str) -> bool:
    """Whether a dataset's feature is the simulation's: kind, size and the name of every column."""
    theirs, ours = features.get(key), FEATURES.get(key)
    if theirs is None or ours is None:
        return False
    return all(theirs[part] == _plain(ours[part]) for part in ("dtype", "shape", "names"))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
