"""What a robot records: the features of its frames, and a dataset that survives a kill."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.datasets import aggregate_pipeline_dataset_features, create_initial_features
from lerobot.processor import make_default_processors
from lerobot.rollout.configs import BaseStrategyConfig, DAggerStrategyConfig, RolloutConfig
from lerobot.utils.constants import ACTION
from lerobot.utils.feature_utils import combine_feature_dicts

from lefleet.edge.features import vectors_of
from lefleet.edge.guard import GuardedRobot
from lefleet.errors import BadInput, LeFleetError
from lefleet.recording import RecordedDataset

_LOG = logging.getLogger(__name__)


class RolloutDataset(RecordedDataset):
    """What LeRobot's strategies record into, without three traps of theirs.

    They save an episode that has no frames yet, which ends the rollout with an error: here it is
    not saved. They upload while the robot waits in its last pose: here `upload` does that, after
    the robot is disconnected. And they record the action that was asked for: here it is the one
    that the guard let through, where frames are added in the tick of their action (all strategies
    but highlight).
    """

    corrected: Callable[[], Mapping[str, float]] = staticmethod(dict)
    """The command of this tick, if the guard changed it; else empty."""

    def add_frame(self, frame: dict[str, Any]) -> None:
        sent = self.corrected()
        names = self.features[ACTION]["names"]
        if all(name in sent for name in names):
            frame = {**frame, ACTION: np.array([sent[name] for name in names], np.float32)}
        super().add_frame(frame)

    def save_episode(self, *arguments: Any, **settings: Any) -> None:
        if not arguments and not self.has_pending_frames():
            _LOG.debug("The episode has no frames and is not saved.")
            return
        super().save_episode(*arguments, **settings)

    def push_to_hub(self, *_: Any, **__: Any) -> None:
        """Strategies call it for their upload keys, and log what is raised."""
        raise LeFleetError(
            "Nothing is uploaded while the robot is connected.",
            "With --dataset.push_to_hub=true it is uploaded at the end.",
        )

    def upload(self, *, tags: list[str] | None, private: bool | None) -> None:
        super().push_to_hub(tags=tags, private=private)


def dataset_features(robot: GuardedRobot, *, video: bool) -> dict[str, Any]:
    """Features of what the robot observes and executes, with the vectors that it names itself."""
    motors = {k: v for k, v in robot.action_features.items() if k.endswith((".pos", ".vel"))}
    cameras = {k: v for k, v in robot.observation_features.items() if isinstance(v, tuple)}
    teleop_action, _, robot_observation = make_default_processors()
    actions = aggregate_pipeline_dataset_features(
        pipeline=teleop_action,
        initial_features=create_initial_features(action=motors),
        use_videos=video,
    )
    images = aggregate_pipeline_dataset_features(
        pipeline=robot_observation,
        initial_features=create_initial_features(observation=cameras),
        use_videos=video,
    )
    vectors = {
        key: {"dtype": "float32", "shape": (len(names),), "names": list(names)}
        for key, names in vectors_of(robot).items()
    }
    return {**combine_feature_dicts(actions, images), **vectors}


def require_folder(cfg: RolloutConfig) -> None:
    """Refuse a folder that cannot be recorded into, before anything is connected."""
    asked = cfg.dataset
    if asked is None or isinstance(cfg.strategy, BaseStrategyConfig):
        return
    if not cfg.resume:
        if asked.root and Path(asked.root).exists():
            raise BadInput(
                f"dataset.root: {asked.root} exists.",
                "Choose another folder, or continue its recording with --resume=true",
            )
    elif not asked.root:
        raise BadInput("dataset.root: is missing; with resume it names the dataset's folder.")
    elif not (Path(asked.root) / "meta/info.json").exists():
        raise BadInput(
            f"dataset.root: {asked.root} is not a LeRobotDataset, so there is nothing to resume.",
            "Leave --resume out to begin one.",
        )


def open_dataset(
    cfg: RolloutConfig, robot: GuardedRobot, features: dict[str, Any]
) -> RolloutDataset | None:
    """The dataset that the strategy records into; None for a strategy that records nothing."""
    asked = cfg.dataset
    if asked is None or isinstance(cfg.strategy, BaseStrategyConfig):
        return None
    settings: dict[str, Any] = {
        "root": asked.root,
        "batch_encoding_size": asked.video_encoding_batch_size,
        "rgb_encoder": asked.rgb_encoder,
        "depth_encoder": asked.depth_encoder,
        "streaming_encoding": asked.streaming_encoding,
        "encoder_queue_maxsize": asked.encoder_queue_maxsize,
        "encoder_threads": asked.encoder_threads,
        "image_writer_processes": asked.num_image_writer_processes,
        "image_writer_threads": asked.num_image_writer_threads_per_camera
        * len(getattr(robot, "cameras", ())),
    }
    if isinstance(cfg.strategy, DAggerStrategyConfig):
        features = features | {"intervention": {"dtype": "bool", "shape": (1,), "names": None}}
    if cfg.resume:
        return _resumed(RolloutDataset.resume(asked.repo_id, **settings), asked.fps, features)
    asked.stamp_repo_id()
    return RolloutDataset.create(
        asked.repo_id,
        asked.fps,
        robot_type=robot.robot_type,
        features=features,
        use_videos=asked.video,
        video_files_size_in_mb=getattr(cfg.strategy, "target_video_file_size_mb", None),
        **settings,
    )


def _resumed(dataset: RolloutDataset, fps: int, features: dict[str, Any]) -> RolloutDataset:
    """The dataset, if what will be recorded fits what is in it."""
    there = dataset.meta.features
    wrong = [
        key for key in features if key not in there or _shape(there, key) != _shape(features, key)
    ]
    if wrong or dataset.fps != fps:
        dataset.finalize()
        what = (
            f"no {wrong[0]} of shape {_shape(features, wrong[0])}"
            if wrong
            else f"{dataset.fps} fps"
        )
        wanted = "The robot" if wrong else f"The rollout has {fps} fps, so it"
        raise BadInput(
            f"dataset.root: {dataset.root} has {what}.", f"{wanted} needs another dataset."
        )
    return dataset


def _shape(features: dict[str, Any], key: str) -> tuple[int, ...]:
    return tuple(features[key]["shape"])
