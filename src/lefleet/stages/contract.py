"""What columns and tasks mean, and whether policy, data and simulation agree about it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.records import CheckpointContract, DatasetRecord
from lefleet.records.checkpoint import column_numbers
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, ROBOT_TYPE, STATE_NAMES
from lefleet.sim.render import CAMERAS, CameraSizes
from lefleet.sim.tasks import BY_INSTRUCTION, TASK_SETS, TASKS
from lefleet.stages.cameras import IMAGES, camera_features, seen_cameras
from lefleet.stages.references import CheckpointReference, made_by, renames_inputs

CONTRACT_FILE = "lefleet.json"
INFO = "meta/info.json"
FEATURES: dict[str, dict[str, Any]] = {
    key: {"dtype": "float32", "shape": (len(names),), "names": list(names)}
    for key, names in (
        ("action", ACTION_NAMES),
        ("observation.state", STATE_NAMES),
        ("observation.environment_state", ENVIRONMENT_NAMES),
    )
}
"""How episodes of the simulation lie in a dataset."""
SIMULATED_INFO: dict[str, Any] = {
    "fps": FPS,
    "robot_type": ROBOT_TYPE,
    "features": FEATURES,
}
"""What such a dataset says of itself, as far as it matters here."""

_IMAGES = ("image", "video")


def simulated_info(cameras: CameraSizes) -> dict[str, Any]:
    """The same of a dataset with the images of these cameras."""
    return {**SIMULATED_INFO, "features": {**FEATURES, **camera_features(cameras)}}


class _Feature(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]


class _Info(msgspec.Struct):
    """The least that a dataset has to say of itself."""

    features: Annotated[dict[str, _Feature], msgspec.Meta(min_length=1)]


class DataLayout(NamedTuple):
    """How episodes of an environment lie in a dataset."""

    features: dict[str, dict[str, Any]]
    fps: int
    robot_type: str
    text: Callable[[str], str]
    """The text that stands for a task."""

    @property
    def has_videos(self) -> bool:
        return any(feature["dtype"] == "video" for feature in self.features.values())


def read_info(root: str | Path) -> dict[str, Any]:
    """The dataset's own description of itself; BadInput where that is not enough to work with."""
    try:
        info = msgspec.json.decode((Path(root) / INFO).read_bytes(), type=dict[str, Any])
        msgspec.convert(info, _Info)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInput(
            f"{root} cannot be read as a LeRobotDataset: {INFO}: {error}.",
            "Name the folder of a LeRobotDataset, or restore this file from a copy.",
        ) from error
    return info


def is_camera(feature: Mapping[str, Any]) -> bool:
    """Whether a feature of a dataset holds images."""
    return feature["dtype"] in _IMAGES


def policy_features(info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The features that LeRobot gives a policy: observations and actions."""
    return {
        key: feature
        for key, feature in info["features"].items()
        if key.startswith(("observation", "action")) and feature["dtype"] != "string"
    }


def is_simulated(info: Mapping[str, Any]) -> bool:
    """Whether the data is of LeFleet's simulation: its robot, and no vector but its own."""
    vectors = {key: one for key, one in policy_features(info).items() if not is_camera(one)}
    return info.get("robot_type") == ROBOT_TYPE and all(_is_same(vectors, key) for key in vectors)


def contract_of(
    dataset: DatasetRecord, policy_type: str, info: dict[str, Any]
) -> CheckpointContract:
    """Names and shapes come from the data that the policy was trained on."""
    features = info["features"]
    observed = {key: value for key, value in features.items() if key.startswith("observation.")}
    return CheckpointContract(
        action_names=known_names(features["action"]),
        vectors={k: known_names(v) for k, v in observed.items() if not is_camera(v)},
        cameras={k: tuple(v["shape"]) for k, v in observed.items() if is_camera(v)},
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


def known_names(feature: dict[str, Any]) -> tuple[str, ...]:
    """Names of a vector's columns, or their numbers."""
    shape = feature["shape"]
    return column_names(feature) or column_numbers(shape[0] if shape else 1)


def has_named_tasks(info: Mapping[str, Any]) -> bool:
    """Whether data is of the simulation's robot, the only one whose tasks have names beside their
    texts. `info` is a dataset's description of itself."""
    return info.get("robot_type") == ROBOT_TYPE


def task_text(task: str) -> str:
    """The instruction of a task of the simulation, which stands for it in data."""
    known = TASKS.get(task.removesuffix("-v3"))
    return known.instruction if known else task


def own_layout(cameras: CameraSizes) -> DataLayout:
    """Of LeFleet's simulation, with the images of these cameras."""
    return DataLayout({**FEATURES, **camera_features(cameras)}, FPS, ROBOT_TYPE, task_text)


OWN_LAYOUT = own_layout({})


def wanted_texts(tasks: Iterable[str], info: Mapping[str, Any]) -> tuple[str, ...]:
    """Task texts of the dataset that `info` describes. In data of the simulation, names and task
    sets stand for instructions; everywhere else a text stands for itself, whatever it is."""
    if not has_named_tasks(info):
        return tuple(dict.fromkeys(tasks))
    names = [member for task in tasks for member in TASK_SETS.get(task.lower(), (task,))]
    return tuple(dict.fromkeys(task_text(name) for name in names))


def task_name(text: str, info: Mapping[str, Any]) -> str:
    """A task text as messages show it: by its short name in data of the simulation."""
    return BY_INSTRUCTION.get(text, text) if has_named_tasks(info) else text


def require_coverage(
    available: Mapping[str, int], wanted: Iterable[str], where: str, info: Mapping[str, Any]
) -> None:
    """Raise BadInput naming the tasks of `wanted` that `available` (episodes by text) lacks."""
    missing = [
        task_name(text, info) for text in wanted_texts(wanted, info) if not available.get(text)
    ]
    if not missing:
        return
    present = ", ".join(f"{task_name(text, info)} ({count})" for text, count in available.items())
    raise BadInput(
        f"tasks: {where} has no episode of {', '.join(missing)}.",
        f"It has {present or 'no episodes'}. Collect the missing tasks, or leave them out.",
    )


def require_simulable(checkpoint: CheckpointReference, field: str) -> CameraSizes:
    """The cameras that the policy sees; BadInput naming what it wants and the simulation does not
    have."""
    folder = Path(checkpoint.path)
    config = msgspec.json.decode((folder / "config.json").read_bytes())
    seen = seen_cameras(folder)
    # What is renamed, and resized, the policy's own processors know.
    ready = made_by(folder) | {f"{IMAGES}{name}" for name in seen}
    for side, start in (("input_features", "observation."), ("output_features", "action")):
        known = {key: list(FEATURES[key]["shape"]) for key in FEATURES if key.startswith(start)}
        for key, feature in (config.get(side) or {}).items():
            if feature.get("type") == "VISUAL" and seen and renames_inputs(folder):
                continue
            if key not in ready and known.get(key) != feature["shape"]:
                there = (
                    f", the simulation's {known[key]}"
                    if key in known
                    else f", and does not exist in the simulation (cameras: {', '.join(CAMERAS)})"
                    if feature.get("type") == "VISUAL"
                    else ", and does not exist in the simulation"
                )
                raise BadInput(
                    f"{field}: the policy's {key} has shape {feature['shape']}{there}.",
                    "Use a policy trained on data of lefleet's simulation, or name the LeRobot "
                    "environment of this one: evaluate.env in a config, --env type NAME with eval.",
                )
    return seen


def require_same_shape(root: str | Path, field: str, cameras: CameraSizes) -> None:
    """Raise BadInput where episodes of the simulation, with the images of `cameras`, cannot be
    merged into the dataset in `root`."""
    info = read_info(root)
    own = {**FEATURES, **camera_features(cameras)}
    ours = {"fps": FPS, "robot_type": ROBOT_TYPE}
    differing = [name for name, value in ours.items() if info.get(name) != value]
    features = {
        k: v for k, v in info["features"].items() if k.startswith(("observation.", "action"))
    }
    keys = sorted(own.keys() | features.keys())
    differing += [key for key in keys if not _is_same(features, key, own)]
    if differing:
        raise BadInput(
            f"{field}: {root} differs from the simulation in {', '.join(differing)}.",
            "Only data of lefleet's simulation can be added to, and only with the same cameras in "
            "the same size.",
        )


def _is_same(features: dict[str, Any], key: str, own: dict[str, Any] = FEATURES) -> bool:
    """Whether a dataset's feature is the simulation's: kind, size and the name of every column."""
    theirs, ours = features.get(key), own.get(key)
    if theirs is None or ours is None:
        return False
    return all(
        _plain(theirs.get(part)) == _plain(ours[part]) for part in ("dtype", "shape", "names")
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
