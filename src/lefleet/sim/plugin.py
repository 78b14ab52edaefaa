"""LeRobot's registry entry: `--env.type=lefleet_metaworld`."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.envs.utils import freeze_after_episode_end
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE

from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, STATE_NAMES
from lefleet.sim.env import MetaWorldEnv
from lefleet.sim.tasks import resolve_tasks

ENV_TYPE = "lefleet_metaworld"


@EnvConfig.register_subclass(ENV_TYPE)
@dataclass
class LeFleetMetaWorld(EnvConfig):
    """State-based MetaWorld. `task` names tasks and task sets, separated by commas."""

    task: str | None = "easy3"
    fps: int = FPS
    episode_length: int | None = None
    features: dict[str, PolicyFeature] = field(
        default_factory=lambda: {
            ACTION: PolicyFeature(FeatureType.ACTION, (len(ACTION_NAMES),)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (len(STATE_NAMES),)),
            "environment_state": PolicyFeature(FeatureType.ENV, (len(ENVIRONMENT_NAMES),)),
        }
    )
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            ACTION: ACTION,
            "agent_pos": OBS_STATE,
            "environment_state": OBS_ENV_STATE,
        }
    )

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {"episode_length": self.episode_length}

    def create_envs(
        self, n_envs: int, use_async_envs: bool = False
    ) -> dict[str, dict[int, gym.vector.VectorEnv]]:
        """One group per task, so that LeRobot reports success per task."""
        is_async = use_async_envs and n_envs > 1
        vector = gym.vector.AsyncVectorEnv if is_async else gym.vector.SyncVectorEnv
        mode = gym.vector.AutoresetMode.NEXT_STEP
        groups: dict[str, dict[int, gym.vector.VectorEnv]] = {}
        for task in resolve_tasks((self.task or "").split(",")):
            make = freeze_after_episode_end(partial(MetaWorldEnv, task, **self.gym_kwargs))
            groups[task] = {0: vector([make] * n_envs, autoreset_mode=mode)}
        return groups
