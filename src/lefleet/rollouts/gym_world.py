"""Any environment of LeRobot as a world of the engine, stepped as LeRobot's own rollout does.

A world is a vector environment with one place, as LeRobot's factory makes it. The rows of a batch
are put together by the policy, so an episode depends neither on the others in its batch nor on when
they end.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from lerobot.envs.utils import NEW_ROLLOUT_OPTION, preprocess_observation

from lefleet.experts import registered
from lefleet.rollouts.worlds import ActionRange, EnvObservation, WorldStep
from lefleet.sim.render import NoGraphics
from lefleet.sim.world import UNFINISHED, Action

if TYPE_CHECKING:
    from lefleet.sim.render import RenderedFrame

LISTED_STATE = "init_state_id"
"""Attribute of environments with a list of initial states: number of the one that reset takes."""
LISTED_STATES = "_init_states"
"""And the list."""


class GymWorld:
    """One task of a LeRobot environment."""

    def __init__(self, vector: Any, *, kind: str, fps: int, observed: Any) -> None:
        """`kind`: type of the environment. `observed`: LeRobot's pipeline for its observations."""
        self._vector = vector
        self._kind = kind
        self._observed = observed
        space = vector.single_action_space
        self.actions = ActionRange(space.low.astype(np.float32), space.high.astype(np.float32))
        self.max_steps = self.horizon = int(vector.call("_max_episode_steps")[0])
        self.fps = fps
        self.instruction = instruction_of(vector)
        self.start = ""
        self.has_ended = False
        self._has_list = vector.envs[0].has_wrapper_attr(LISTED_STATE)
        self._progress = 0.0
        self._observation: EnvObservation = {}

    @property
    def progress(self) -> float:
        return self._progress

    def reset(self, seed: int, number: int) -> EnvObservation:
        if self._has_list:
            # Such environments count their resets, and do not look at the seed.
            self._vector.set_attr(LISTED_STATE, number)
        found, _ = self._vector.reset(seed=[seed], options={NEW_ROLLOUT_OPTION: True})
        self._observation = _row(found)
        self.instruction = instruction_of(self._vector)
        self.start = _digest(self._observation)
        self.has_ended = False
        self._progress = 0.0
        return self._observation

    def step(self, action: Action) -> WorldStep:
        found, reward, terminated, truncated, info = self._vector.step(action[np.newaxis])
        # At the end of an episode, vector environments may reset: then this is about its last step.
        told = info["final_info"] if isinstance(info.get("final_info"), dict) else info
        success = bool(_first(told.get("is_success", False)))
        progress = float(_first(told.get("progress", reward)))
        self._progress = max(self._progress, 1.0 if success else min(progress, UNFINISHED))
        self.has_ended = bool(terminated[0] or truncated[0])
        self._observation = _row(found)
        return WorldStep(float(reward[0]), success, self.has_ended)

    def observe(self) -> EnvObservation:
        return self._observation

    def frame(self, observation: EnvObservation) -> dict[str, npt.NDArray[Any]]:
        seen = preprocess_observation(_batched(observation))
        seen = self._observed(seen | {"task": [self.instruction]})
        return {
            key: _kept(value[0])
            for key, value in seen.items()
            if key.startswith("observation.") and isinstance(value, torch.Tensor)
        }

    def expert(self, *, takes_over: bool) -> Callable[[], Action]:  # noqa: ARG002 - one for both
        found = registered(self._kind)
        if found is None:
            raise LookupError(f"no expert is registered for {self._kind}")
        choose = found.make(self._vector.envs[0].unwrapped)
        return lambda: self.actions.clip(np.asarray(choose(self._observation), np.float32))

    def camera(self) -> "_Camera":
        return _Camera(self)

    def render(self) -> Any:
        return self._vector.call("render")[0]


class _Camera:
    """What the environment renders.

    Environments reset themselves when an episode ends, so its last frame is the one before.
    """

    def __init__(self, world: GymWorld) -> None:
        self._world = world
        self._frame: RenderedFrame = np.empty((0, 0, 3), np.uint8)

    def frame(self) -> "RenderedFrame":
        if not self._world.has_ended:
            self._frame = self._shot()
        return self._frame

    def close(self) -> None:
        """The environment keeps its renderer for its observations."""

    def _shot(self) -> "RenderedFrame":
        try:
            image = np.asarray(self._world.render())
        except Exception as error:
            # Whatever befalls a film, the episode goes on.
            problem = f"The environment cannot be rendered ({type(error).__name__}: {error})."
            raise NoGraphics(problem, "Is its render_mode rgb_array?") from error
        if image.ndim != 3 or image.shape[2] not in (3, 4) or image.dtype != np.uint8:
            raise NoGraphics("The environment renders no images.", "Is its render_mode rgb_array?")
        return np.ascontiguousarray(image[:, :, :3])


def instruction_of(vector: Any) -> str:
    """The task in words, as LeRobot's rollout finds it; empty where there are none."""
    for name in ("task_description", "task"):
        try:
            return str(vector.call(name)[0])
        except (AttributeError, NotImplementedError):
            continue
    return ""


def _first(value: Any) -> Any:
    """Of the only place in the vector environment."""
    return value[0] if isinstance(value, (np.ndarray, list, tuple)) else value


def _row(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {name: _row(part) for name, part in observation.items()}
    return observation[0]


def _batched(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {name: _batched(one) for name, one in part.items()}
    return np.asarray(part)[np.newaxis]


def _kept(value: torch.Tensor) -> npt.NDArray[Any]:
    """Images as datasets have them; policies get their channels first, from 0 to 1."""
    if value.ndim == 3:
        return (value * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    return value.float().numpy()


def _digest(observation: EnvObservation) -> str:
    content = hashlib.sha256()

    def add(name: str, part: Any) -> None:
        if isinstance(part, Mapping):
            for key in sorted(part):
                add(f"{name}/{key}", part[key])
            return
        array = np.ascontiguousarray(part)
        content.update(f"{name} {array.dtype} {array.shape}\n".encode())
        content.update(array.tobytes())

    add("", observation)
    return content.hexdigest()[:16]
