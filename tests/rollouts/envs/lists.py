"""Environments with a finite list of initial states, as LIBERO's, and with no use for a seed."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig

from lefleet.sim.render import NoGraphics

STATES = 6


class Listed(gym.Env):
    """Counts its resets, and takes the next initial state of its list at each."""

    metadata: ClassVar[dict[str, Any]] = {"render_fps": 10}
    render_mode = "rgb_array"

    def __init__(self, task_id: int, *, is_listed: bool) -> None:
        self.task_description = f"do number {task_id}"
        self._max_episode_steps = 3 + task_id
        if is_listed:
            self.init_state_id = 0
            self._init_states = list(range(STATES))
        self.observation_space = gym.spaces.Dict(
            agent_pos=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
            environment_state=gym.spaces.Box(0.0, 1.0, (3,), np.float32),
        )
        self.action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self._state = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        number = 0
        if hasattr(self, "_init_states"):
            number = self._init_states[self.init_state_id % STATES]
            self.init_state_id += 1
        self._state = np.array([number, 0], np.float32)
        return self._observe(), {"is_success": False}

    def _observe(self):
        return {"agent_pos": self._state.copy(), "environment_state": np.zeros(3, np.float32)}

    def step(self, action):
        self._state[1] += 1
        is_success = bool(self._state[0] == 1 and self._state[1] == 2)
        told = {"is_success": is_success, "progress": 0.25 * float(self._state[1])}
        return self._observe(), -7.0, is_success, False, told

    def render(self):
        if self._state[0] == 3:
            raise NoGraphics("no screen")
        return np.full((31, 33, 3), int(20 * self._state[1]), np.uint8)


@EnvConfig.register_subclass("tests_listed")
@dataclass
class ListedConfig(EnvConfig):
    task: str | None = "both"
    fps: int = 10
    features: dict[str, PolicyFeature] = field(
        default_factory=lambda: {
            "action": PolicyFeature(FeatureType.ACTION, (1,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (2,)),
            "environment_state": PolicyFeature(FeatureType.ENV, (3,)),
        }
    )
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            "action": "action",
            "agent_pos": "observation.state",
            "environment_state": "observation.environment_state",
        }
    )
    is_listed: bool = True

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {"is_listed": self.is_listed}

    def create_envs(self, n_envs, use_async_envs=False):
        def vector(number):
            make = [lambda: Listed(number, **self.gym_kwargs)] * n_envs
            mode = gym.vector.AutoresetMode.SAME_STEP
            return gym.vector.SyncVectorEnv(make, autoreset_mode=mode)

        return {"do": {number: vector(number) for number in range(2)}}
