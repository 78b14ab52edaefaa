"""The environment for LeRobot, and its expert for LeFleet."""

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig

import lefleet.experts
from detour.env import DetourEnv
from detour.expert import make_expert

gym.register("detour/Detour-v0", entry_point=DetourEnv, max_episode_steps=60)


@EnvConfig.register_subclass("detour")
@dataclass
class DetourConfig(EnvConfig):
    """`--env.type=detour`; every field is a flag."""

    task: str | None = "Detour-v0"
    fps: int = 10
    episode_length: int = 60
    features: dict[str, PolicyFeature] = field(
        default_factory=lambda: {
            "action": PolicyFeature(FeatureType.ACTION, (2,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (2,)),
            "environment_state": PolicyFeature(FeatureType.ENV, (4,)),
        }
    )
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            "action": "action",
            "agent_pos": "observation.state",
            "environment_state": "observation.environment_state",
        }
    )

    @property
    def gym_id(self) -> str:
        return f"detour/{self.task}"

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {"max_episode_steps": self.episode_length}


lefleet.experts.register(
    "detour",
    make_expert,
    columns={
        "action": ("x.vel", "y.vel"),
        "observation.state": ("x.pos", "y.pos"),
        "observation.environment_state": ("goal_x", "goal_y", "obstacle_x", "obstacle_y"),
    },
)
