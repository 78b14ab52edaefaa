"""A script that solves the detour: straight ahead, or around the obstacle if it is in the way."""

from collections.abc import Callable
from typing import Any

import numpy as np

from detour.env import OBSTACLE, SPEED, DetourEnv, Vector

CLEARANCE = OBSTACLE + 0.12


def make_expert(env: DetourEnv) -> Callable[[dict[str, Any]], Vector]:  # noqa: ARG001
    """Called at the start of each episode. `env` is there for experts that need to look behind the
    observation; this one does not."""
    return choose


def choose(observation: dict[str, Any]) -> Vector:
    """The action for what is observed now."""
    point = observation["agent_pos"]
    goal, obstacle = observation["environment_state"][:2], observation["environment_state"][2:]
    to_goal, to_obstacle = goal - point, obstacle - point
    heading = to_goal / max(float(np.linalg.norm(to_goal)), 1e-6)
    ahead = float(to_obstacle @ heading)
    beside = float(heading[0] * to_obstacle[1] - heading[1] * to_obstacle[0])
    if 0.0 < ahead < float(np.linalg.norm(to_goal)) and abs(beside) < CLEARANCE:
        # Pass on the side on which the obstacle is not.
        side = -1.0 if beside > 0.0 else 1.0
        normal = side * np.array([-heading[1], heading[0]], np.float32)
        heading = obstacle + CLEARANCE * normal - point
        heading = heading / max(float(np.linalg.norm(heading)), 1e-6)
    speed = min(1.0, float(np.linalg.norm(to_goal)) / SPEED)
    return (speed * heading).astype(np.float32)
