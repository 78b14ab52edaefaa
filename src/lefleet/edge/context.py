"""A rollout context of LeRobot without weights: the policy's server is asked what is needed.

It is made of LeRobot's own parts, in the order in which LeRobot's `build_rollout_context` makes
them: policy first, hardware last, so that nothing moves before the server has taken the robot.
"""

import logging
from threading import Event
from typing import Any

from lerobot.datasets import aggregate_pipeline_dataset_features, create_initial_features
from lerobot.processor import make_default_processors
from lerobot.robots import Robot, make_robot_from_config
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import (
    DatasetContext,
    HardwareContext,
    PolicyContext,
    ProcessorContext,
    RolloutContext,
    RuntimeContext,
)
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.utils.constants import ACTION
from lerobot.utils.feature_utils import combine_feature_dicts

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.engine import connect, create_engine
from lefleet.edge.features import features_of, vectors_of
from lefleet.edge.guard import GuardedRobot
from lefleet.errors import BadInput

_LOG = logging.getLogger(__name__)


def build_remote_context(
    cfg: RolloutConfig, shutdown_event: Event, robot: Robot | None = None
) -> RolloutContext:
    """The context of a rollout whose policy is on a server; `robot` replaces that of the config.

    Raises what `RemotePolicy` raises if no server takes the robot, and ValueError for a setting
    that cannot work. The robot is then not connected, or disconnected again.
    """
    config = cfg.inference
    if not isinstance(config, RemoteInferenceConfig):
        raise BadInput(f"inference.type: {config.type} is not remote.")
    guarded = GuardedRobot(robot or make_robot_from_config(cfg.robot), config.guard)
    features = features_of(guarded, guarded.robot_type, cfg.fps, cfg.rename_map)
    policy = connect(config, features, task=cfg.task)
    try:
        engine = create_engine(
            policy,
            config,
            features=features,
            robot=guarded,
            task=cfg.task,
            renamed=cfg.rename_map,
            shutdown_event=shutdown_event,
        )
    except BaseException:
        policy.close()
        raise
    try:
        guarded.connect()
        observation = guarded.get_observation()
    except BaseException:
        engine.stop()
        raise
    contract = policy.ack.capabilities.contract
    teleop_action, robot_action, robot_observation = make_default_processors()
    data = dataset_features(guarded)
    return RolloutContext(
        runtime=RuntimeContext(cfg=cfg, shutdown_event=shutdown_event),
        hardware=HardwareContext(
            robot_wrapper=ThreadSafeRobot(guarded),
            teleop=None,
            initial_position={k: v for k, v in observation.items() if k.endswith(".pos")},
        ),
        # Strategies only use the engine: there is no policy here.
        policy=PolicyContext(policy=None, preprocessor=None, postprocessor=None, inference=engine),
        processors=ProcessorContext(
            teleop_action_processor=teleop_action,
            robot_action_processor=robot_action,
            robot_observation_processor=robot_observation,
        ),
        data=DatasetContext(
            dataset=None,
            dataset_features=data,
            hw_features={key: one for key, one in data.items() if key != ACTION},
            ordered_action_keys=list(features.facing(contract).action_names),
        ),
    )


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
