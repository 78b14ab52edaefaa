"""What is in a dataset or a checkpoint, what would be trained on it, and what would be refused.

Reads metadata only, and neither LeRobot nor torch, so that it answers in a second.
"""

import math
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec

from lefleet.errors import BadInput
from lefleet.queries.dataset_files import (
    EpisodeEntry,
    LeRobotFeature,
    LeRobotInfo,
    is_recording,
    path_in,
    read_lerobot_info,
)
from lefleet.queries.episode_index import EpisodeIndex
from lefleet.records import CheckpointContract, CheckpointRecord, TrainRequest, decode
from lefleet.records.border import Strict
from lefleet.records.checkpoint import Normalisation, are_numbers
from lefleet.stages.backbone import needed_weights
from lefleet.stages.contract import CONTRACT_FILE, is_camera, known_names, policy_features
from lefleet.stages.extras import require_policy
from lefleet.stages.folder import read_record
from lefleet.stages.normalisation import kind_of, require_family
from lefleet.stages.references import made_by, read_policy_config
from lefleet.stages.suitability import Statistics, Suitability, assess, read_statistics

_MOST_MISSING = 3


class InspectedColumn(Strict, frozen=True, kw_only=True):
    """One number of a vector; None where the dataset does not say."""

    name: str
    low: float | None
    high: float | None
    mean: float | None
    std: float | None


class InspectedVector(Strict, frozen=True, kw_only=True):
    """A feature of numbers."""

    key: str
    kind: str
    """LeRobot's type: STATE, ENV, ACTION."""
    columns: tuple[InspectedColumn, ...]


class InspectedCamera(Strict, frozen=True, kw_only=True):
    """A feature of images."""

    key: str
    shape: tuple[int, ...]
    dtype: str
    """video or image."""


class Obstacle(Strict, frozen=True, kw_only=True):
    """Why something would be refused."""

    problem: str
    remedy: str


class PlannedTraining(Strict, frozen=True, kw_only=True):
    """What `lefleet train` would do with the dataset."""

    policy_type: str
    is_small: bool
    """LeFleet's small state policy, which trains on one core."""
    normalisation: Normalisation | None
    """None where it cannot be said."""
    weights: str
    """ImageNet weights that it begins with, and whether they are here; empty where it needs none.
    """
    refused: tuple[Obstacle, ...]
    notes: tuple[str, ...]


class InspectedDataset(Strict, frozen=True, kw_only=True):
    """A LeRobotDataset, as far as its metadata tell."""

    kind: Literal["dataset"] = "dataset"
    root: str
    robot_type: str
    fps: float
    episodes: int
    frames: int
    tasks: dict[str, int]
    """Episodes by task text; one with several counts for its first."""
    vectors: tuple[InspectedVector, ...]
    cameras: tuple[InspectedCamera, ...]
    training: PlannedTraining
    contract_lacks: tuple[str, ...]
    """What a checkpoint trained on it would not know of its columns."""


class InspectedCheckpoint(Strict, frozen=True, kw_only=True):
    """A policy on disk, as far as its small files tell."""

    kind: Literal["checkpoint"] = "checkpoint"
    path: str
    policy_type: str
    inputs: dict[str, tuple[int, ...]]
    """Shape by feature."""
    outputs: dict[str, tuple[int, ...]]
    chunk_size: int
    """Actions of one chunk; 0 where the policy does not say."""
    normalisation: Normalisation
    contract: CheckpointContract | None
    """`lefleet.json` beside the weights."""
    contract_lacks: tuple[str, ...]
    steps: int
    """Of its training; 0 where that is not known."""
    final_loss: float | None


def inspect_dataset(root: Path, policy_type: str = "act") -> InspectedDataset:
    """BadInput where it cannot be read at all; what only a training would trip over is listed."""
    info = read_lerobot_info(root)
    for key, feature in info.features.items():
        _require_readable(key, feature)
    plain = msgspec.to_builtins(info)
    features = policy_features(plain)
    statistics = read_statistics(root)
    entries = EpisodeIndex(root).find(info, None)
    return InspectedDataset(
        root=str(root),
        robot_type=info.robot_type or "",
        fps=info.fps,
        episodes=info.total_episodes,
        frames=info.total_frames,
        tasks=dict(Counter(one.tasks[0] if one.tasks else "" for one in entries.values())),
        vectors=tuple(
            _vector(key, one, statistics) for key, one in features.items() if not is_camera(one)
        ),
        cameras=tuple(
            InspectedCamera(key=key, shape=tuple(one["shape"]), dtype=one["dtype"])
            for key, one in features.items()
            if is_camera(one)
        ),
        training=_training(root, plain, policy_type, _missing_files(root, info, entries)),
        contract_lacks=_lacks(plain),
    )


def _require_readable(key: str, feature: LeRobotFeature) -> None:
    names = feature.names
    groups = names.values() if isinstance(names, dict) else ()
    is_sound = names is None or isinstance(names, list | dict)
    if not is_sound or not all(isinstance(group, int | list) for group in groups):
        raise BadInput(f"meta/info.json: names of {key} are neither a list nor lists by key.")


def _vector(key: str, feature: dict[str, Any], statistics: Statistics) -> InspectedVector:
    names = known_names(feature)
    known = statistics.get(key, {})

    def number(name: str, at: int) -> float | None:
        values = known.get(name, ())
        return values[at] if at < len(values) and math.isfinite(values[at]) else None

    return InspectedVector(
        key=key,
        kind=kind_of(key, feature),
        columns=tuple(
            InspectedColumn(
                name=name,
                low=number("min", at),
                high=number("max", at),
                mean=number("mean", at),
                std=number("std", at),
            )
            for at, name in enumerate(names)
        ),
    )


def _training(
    root: Path, info: dict[str, Any], policy_type: str, obstacles: list[Obstacle]
) -> PlannedTraining:
    request = TrainRequest(dataset=str(root), policy_type=policy_type)
    found: Suitability | None = None
    try:
        require_family(request)
        require_policy(policy_type, "policy_type")
        found = assess(request, info, root)
    except BadInput as error:
        obstacles = [*obstacles, Obstacle(problem=error.problem, remedy=error.remedy)]
    weights = needed_weights(request, info, None)
    state = (
        "in the cache" if weights and weights.is_cached() else "not here yet: a network is needed"
    )
    features = policy_features(info).values()
    return PlannedTraining(
        policy_type=policy_type,
        is_small=policy_type == "act" and not any(map(is_camera, features)),
        normalisation=found.normalisation if found else None,
        weights=f"{weights.name}, {state} ({weights.file})" if weights else "",
        refused=(
            *obstacles,
            *(Obstacle(problem=p, remedy=r) for p, r in (found.refusals if found else ())),
        ),
        notes=found.notes if found else (),
    )


def _missing_files(
    root: Path, info: LeRobotInfo, entries: dict[int, EpisodeEntry]
) -> list[Obstacle]:
    """Files that the metadata name and the folder does not have."""
    places = {path_in(root, info.data_path, one.data) for one in entries.values()}
    for one in entries.values():
        for camera, part in one.videos.items():
            places.add(path_in(root, info.video_path or "", (part.chunk, part.file), camera))
    missing = sorted(str(path.relative_to(root)) for path in places if not path.is_file())
    found = []
    if missing:
        more = f" and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
        found.append(
            Obstacle(
                problem=f"{', '.join(missing[:_MOST_MISSING])}{more}: missing.",
                remedy="Copy the whole dataset, with data/ and videos/.",
            )
        )
    if len(entries) != info.total_episodes:
        found.append(
            Obstacle(
                problem=f"meta/episodes tells of {len(entries)} episodes, meta/info.json of "
                f"{info.total_episodes}.",
                remedy="Copy the whole dataset, with meta/.",
            )
        )
    if is_recording(root):
        found.append(
            Obstacle(
                problem="It is being recorded, or a kill ended the recording.",
                remedy="Wait for its end, or record into it again: that repairs it.",
            )
        )
    return found


def _lacks(info: dict[str, Any]) -> tuple[str, ...]:
    vectors = {key: one for key, one in policy_features(info).items() if not is_camera(one)}
    unnamed = [key for key, one in vectors.items() if are_numbers(known_names(one))]
    return (
        *(f"names of the columns of {key}" for key in unnamed),
        *(() if info.get("robot_type") else ("the robot type",)),
    )


def inspect_checkpoint(folder: Path) -> InspectedCheckpoint:
    """Of a pretrained_model folder."""
    config = read_policy_config(folder)
    file = folder / CONTRACT_FILE
    contract: CheckpointContract | None = None
    if file.is_file():
        contract = decode(file.read_bytes(), CheckpointContract, str(file))
    record = _record_of(folder)
    made = made_by(folder)
    mapping = config.get("normalization_mapping")
    known = record.normalisation if record else None
    return InspectedCheckpoint(
        path=str(folder),
        policy_type=str(config["type"]),
        inputs={k: v for k, v in _shapes(config.get("input_features")).items() if k not in made},
        outputs=_shapes(config.get("output_features")),
        chunk_size=int(config.get("chunk_size") or config.get("horizon") or 0),
        normalisation=known
        or Normalisation(
            mapping=mapping if isinstance(mapping, dict) else {}, reason="as its config.json says"
        ),
        contract=contract,
        contract_lacks=_contract_lacks(contract),
        steps=record.steps if record else 0,
        final_loss=record.final_loss if record else None,
    )


def _record_of(folder: Path) -> CheckpointRecord | None:
    """The record of the stage whose last checkpoint this is."""
    if len(folder.parts) <= 4:
        return None
    record = read_record(folder.parents[3])
    if not isinstance(record, CheckpointRecord):
        return None
    return record if Path(record.path).parts[-2:] == folder.parts[-2:] else None


def _shapes(features: Any) -> dict[str, tuple[int, ...]]:
    entries = features.items() if isinstance(features, dict) else ()
    return {key: tuple(one.get("shape") or ()) for key, one in entries}


def _contract_lacks(contract: CheckpointContract | None) -> tuple[str, ...]:
    if contract is None:
        return (f"{CONTRACT_FILE}: lefleet contract shows what other sources say",)
    vectors = {"action": contract.action_names, **contract.vectors}
    unnamed = [key for key, names in vectors.items() if are_numbers(names)]
    return (
        *(f"names of the columns of {key}" for key in unnamed),
        *(() if contract.robot_type else ("the robot type",)),
    )
