"""LeFleet's own simulation as a world of the engine."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lefleet.rollouts.worlds import ActionRange, Camera, EnvObservation, WorldStep
from lefleet.sim.encode import ACTION_NAMES, FPS, encode
from lefleet.sim.render import Renderer
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS, Action, Expert, RawObservation, RecoveringExpert, World

_ONES = np.ones(len(ACTION_NAMES), np.float32)


class MetaWorld:
    """One task of MetaWorld."""

    def __init__(self, task: str) -> None:
        self.instruction = TASKS[task].instruction
        self.horizon = TASKS[task].horizon
        self.max_steps = MAX_STEPS
        self.fps = FPS
        self.actions = ActionRange(-_ONES, _ONES)
        self.start = ""
        self._task = task
        self._world = World(task)
        self._raw: RawObservation = np.empty(0)

    @property
    def progress(self) -> float:
        return self._world.progress

    def reset(self, seed: int, number: int) -> EnvObservation:  # noqa: ARG002 - any seed is a state
        self._raw = self._world.reset(seed)
        self.start = hashlib.sha256(self._raw.tobytes()).hexdigest()[:16]
        return self._observation()

    def step(self, action: Action) -> WorldStep:
        outcome = self._world.step(action)
        self._raw = outcome.raw
        return WorldStep(self._observation(), outcome.reward, outcome.success, outcome.success)

    def frame(self, observation: EnvObservation) -> dict[str, npt.NDArray[Any]]:
        return {
            "observation.state": observation["agent_pos"],
            "observation.environment_state": observation["environment_state"],
        }

    def expert(self, *, takes_over: bool) -> Callable[[], Action]:
        expert = RecoveringExpert(self._task) if takes_over else Expert(self._task)
        return lambda: expert.act(self._raw)

    def camera(self) -> Camera:
        return Renderer(self._world.sim)

    def _observation(self) -> EnvObservation:
        encoded = encode(self._raw, self._task)
        return {"agent_pos": encoded.state, "environment_state": encoded.environment}
