"""A point in a square drives to a goal; a round obstacle is in its way."""

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

SPEED = 0.08
"""Length of the largest step; the square is 2 wide."""
OBSTACLE = 0.35
"""Radius."""
GOAL = 0.08
"""Nearer than this is success."""


class DetourEnv(gym.Env):
    """Observes positions, takes a velocity from -1 to 1 in x and y.

    What LeFleet needs of an environment is marked with a number; docs/own-environment.md explains.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}
    # (1) The task in words: policies that read get it, and datasets keep it.
    task_description = "go to the goal around the obstacle"

    def __init__(self, render_mode: str = "rgb_array") -> None:
        self.render_mode = render_mode
        # (2) Names that LeRobot knows: agent_pos, environment_state, pixels.
        self.observation_space = gym.spaces.Dict(
            agent_pos=gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
            environment_state=gym.spaces.Box(-1.0, 1.0, (4,), np.float32),
        )
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._point: Vector = np.zeros(2, np.float32)
        self._goal: Vector = self._point
        self._obstacle: Vector = self._point
        self._distance = 1.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, Any]]:
        # (3) The seed alone determines the initial state.
        super().reset(seed=seed, options=options)
        y_start, y_goal, y_obstacle = self.np_random.uniform((-0.6, -0.6, -0.3), (0.6, 0.6, 0.3))
        self._point = np.array([-0.85, y_start], np.float32)
        self._goal = np.array([0.85, y_goal], np.float32)
        self._obstacle = np.array([0.0, y_obstacle], np.float32)
        self._distance = float(np.linalg.norm(self._goal - self._point))
        return self._observe(), {"is_success": False}

    def step(self, action: Vector) -> tuple[dict[str, Vector], float, bool, bool, dict[str, Any]]:
        moved = self._point + SPEED * np.clip(action, -1.0, 1.0)
        away = moved - self._obstacle
        distance = float(np.linalg.norm(away))
        if distance < OBSTACLE:
            moved = self._obstacle + away * (OBSTACLE / max(distance, 1e-6))
        self._point = np.clip(moved, -1.0, 1.0).astype(np.float32)
        left = float(np.linalg.norm(self._goal - self._point))
        # (4) is_success ends the episode; progress from 0 to 1 is optional.
        success = left < GOAL
        info = {"is_success": success, "progress": max(0.0, 1.0 - left / self._distance)}
        return self._observe(), -left, success, False, info

    def render(self) -> NDArray[np.uint8]:
        # (5) Films show this.
        axis = np.linspace(-1.0, 1.0, 96, dtype=np.float32)
        x, y = np.meshgrid(axis, -axis)
        image = np.full((96, 96, 3), 245, np.uint8)
        for centre, radius, colour in (
            (self._obstacle, OBSTACLE, (90, 90, 90)),
            (self._goal, GOAL, (60, 170, 90)),
            (self._point, 0.05, (40, 90, 200)),
        ):
            image[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2] = colour
        return image

    def _observe(self) -> dict[str, Vector]:
        seen = np.concatenate([self._goal, self._obstacle])
        return {"agent_pos": self._point.copy(), "environment_state": seen.astype(np.float32)}
