"""What a robot records: the features of its frames, and a dataset that survives a kill."""

from typing import Any

from lerobot.datasets import aggregate_pipeline_dataset_features, create_initial_features
from lerobot.processor import make_default_processors
from lerobot.rollout.configs import BaseStrategyConfig, DAggerStrategyConfig, RolloutConfig
from lerobot.utils.feature_utils import combine_feature_dicts

from lefleet.edge.features import vectors_of
from lefleet.edge.guard import GuardedRobot
from lefleet.errors import BadInput
from lefleet.recording import RecordedDataset

_PREFIX = "rollout_"
"""LeRobot wants it, so that recordings of policies are told from demonstrations."""


def dataset_features(robot: GuardedRobot) -> dict[str, Any]:
    """Features of what the robot observes and executes, with the vectors that it names itself."""
    motors = {k: v for k, v in robot.action_features.items() if k.endswith((".pos", ".vel"))}
    cameras = {k: v for k, v in robot.observation_features.items() if isinstance(v, tuple)}
    teleop_action, _, robot_observation = make_default_processors()
    actions = aggregate_pipeline_dataset_features(
        pipeline=teleop_action,
        initial_features=create_initial_features(action=motors),
        use_videos=True,
    )
    images = aggregate_pipeline_dataset_features(
        pipeline=robot_observation,
        initial_features=create_initial_features(observation=cameras),
        use_videos=True,
    )
    vectors = {
        key: {"dtype": "float32", "shape": (len(names),), "names": list(names)}
        for key, names in vectors_of(robot).items()
    }
    return {**combine_feature_dicts(actions, images), **vectors}


def open_dataset(
    cfg: RolloutConfig, robot: GuardedRobot, features: dict[str, Any]
) -> RecordedDataset | None:
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
        "image_writer_threads": asked.num_image_writer_threads_per_camera * len(robot.cameras),
    }
    if cfg.resume:
        return RecordedDataset.resume(asked.repo_id, **settings)
    if not asked.repo_id.rpartition("/")[2].startswith(_PREFIX):
        name = asked.repo_id.rpartition("/")[2]
        raise BadInput(
            f"dataset.repo_id: {asked.repo_id} must have a name that starts with {_PREFIX}.",
            f"For instance --dataset.repo_id=local/{_PREFIX}{name}",
        )
    asked.stamp_repo_id()
    marks = {"intervention": {"dtype": "bool", "shape": (1,), "names": None}}
    return RecordedDataset.create(
        asked.repo_id,
        asked.fps,
        robot_type=robot.robot_type,
        features=features | (marks if isinstance(cfg.strategy, DAggerStrategyConfig) else {}),
        use_videos=asked.video,
        video_files_size_in_mb=getattr(cfg.strategy, "target_video_file_size_mb", None),
        **settings,
    )
