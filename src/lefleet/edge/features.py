"""A LeRobot robot's features and observations in the words of a policy's contract: by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError
from lerobot.configs import PolicyFeature, PreTrainedConfig
from lerobot.utils.constants import OBS_IMAGES, OBS_STATE, POLICY_PREPROCESSOR_DEFAULT_NAME
from numpy.typing import NDArray

from lefleet.records.checkpoint import made_inputs
from lefleet_client import RobotFeatures
from lefleet_client.wire import Contract

RENAMED = Mapping[str, str]
"""LeRobot's rename_map: keys of the robot's observation to keys of the policy."""


_CHANNELS = 3
"""Depth images are not sent; a policy that needs one is refused by its server."""


class DescribedRobot(Protocol):
    """What is read of a robot; LeRobot's ThreadSafeRobot has it too."""

    @property
    def observation_features(self) -> dict[str, Any]: ...

    @property
    def action_features(self) -> dict[str, Any]: ...


def vectors_of(robot: DescribedRobot) -> dict[str, tuple[str, ...]]:
    """Which scalars form which of the policy's vectors.

    A robot may say so in an attribute `vectors`; else its positions and velocities are the state,
    as in LeRobot's rollout.
    """
    said: Mapping[str, tuple[str, ...]] | None = getattr(robot, "vectors", None)
    if said is not None:
        return {key: tuple(names) for key, names in said.items()}
    scalars = (name for name, kind in robot.observation_features.items() if kind is float)
    return {OBS_STATE: tuple(name for name in scalars if name.endswith((".pos", ".vel")))}


def features_of(
    robot: DescribedRobot, robot_type: str, fps: float, renamed: RENAMED
) -> RobotFeatures:
    """What the robot tells a server about itself."""
    cameras = {
        renamed.get(key, key): (int(shape[0]), int(shape[1]), int(shape[2]))
        for name, shape in robot.observation_features.items()
        if isinstance(shape, tuple) and shape[2] == _CHANNELS
        for key in (f"{OBS_IMAGES}.{name}",)
    }
    actions = (name for name in robot.action_features if name.endswith((".pos", ".vel")))
    return RobotFeatures(
        action_names=tuple(actions),
        vectors={renamed.get(key, key): names for key, names in vectors_of(robot).items()},
        cameras=cameras,
        fps=fps,
        robot_type=robot_type,
        by_name=True,
    )


def inputs_of(config: PreTrainedConfig) -> dict[str, PolicyFeature]:
    """Inputs that a robot has to send: without those that the checkpoint's preprocessor makes."""
    if config.pretrained_path is None:
        return dict(config.input_features)
    name, where = f"{POLICY_PREPROCESSOR_DEFAULT_NAME}.json", str(config.pretrained_path)
    file = Path(where) / name
    if not Path(where).is_dir():
        try:
            file = Path(hf_hub_download(where, name, revision=config.pretrained_revision))
        except (OSError, ValueError, HfHubHTTPError):
            # Neither here nor on the hub: LeRobot says so where it loads the processors.
            return dict(config.input_features)
    made = made_inputs(json.loads(file.read_bytes())) if file.is_file() else frozenset()
    return {key: one for key, one in config.input_features.items() if key not in made}


class ObservationMap:
    """Turns an observation of LeRobot's rollout into the policy's arrays."""

    def __init__(self, robot: RobotFeatures, contract: Contract, renamed: RENAMED) -> None:
        self._vectors = dict(robot.facing(contract).vectors)
        here = {theirs: mine for mine, theirs in renamed.items()}
        self._images = {
            key: here.get(key, key).removeprefix(f"{OBS_IMAGES}.") for key in contract.cameras
        }

    def __call__(self, observation: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            key: np.array([observation[name] for name in names], np.float32)
            for key, names in self._vectors.items()
        }
        return arrays | {key: np.asarray(observation[name]) for key, name in self._images.items()}


def positions_in(
    action_names: tuple[str, ...], sent: Mapping[str, float], observation: Mapping[str, Any]
) -> NDArray[Any]:
    """The present value of each action's joint; where it is not observed, the last command's.

    NaN where neither is known.
    """
    values = [observation.get(name, sent.get(name, np.nan)) for name in action_names]
    return np.array(values, np.float32)
