"""The gym environment for LeRobot's own programs, and its registry entry `lefleet_metaworld`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.envs.utils import freeze_after_episode_end
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_IMAGES, OBS_STATE

import lefleet.experts
from lefleet.errors import BadInput
from lefleet.sim.encode import (
    ACTION_NAMES,
    ENVIRONMENT_NAMES,
    FPS,
    STATE_NAMES,
    EncodedObservation,
    encode,
)
from lefleet.sim.render import (
    DEFAULT_IMAGE,
    LARGEST_IMAGE,
    SMALLEST_IMAGE,
    CameraSizes,
    ImageSize,
    NoGraphics,
    Renderer,
    Renderers,
    require_cameras,
)
from lefleet.sim.tasks import TASKS, resolve_tasks
from lefleet.sim.world import MAX_STEPS, Action, Expert, RawObservation, World

if TYPE_CHECKING:
    from lefleet.sim.render import RenderedFrame


class MetaWorldEnv(gym.Env):
    """`World` behind gym's interface, with the attributes that LeRobot's rollout asks for.

    An episode ends at success or at the task's horizon. Without a GL library `render` returns
    black frames, because LeRobot's evaluation always renders; the message on stderr names what to
    install. Images that a policy is to see raise NoGraphics instead. Nothing is rendered before the
    first reset, so that gym may fork a process that has made an environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": FPS}

    def __init__(
        self,
        task: str,
        episode_length: int | None = None,
        render_size: int = 224,
        cameras: CameraSizes = MappingProxyType({}),
        renderers: Renderers | None = None,
    ) -> None:
        """`renderers`: shared with other environments of the same process."""
        self.task = task
        self.task_description = TASKS[task].instruction
        self.render_mode = "rgb_array"
        self._max_episode_steps = min(episode_length or TASKS[task].horizon, MAX_STEPS)
        self._render_size = render_size
        self._world = World(task)
        self._renderer: Renderer | None = None
        self._graphics_missing = False
        self._steps = 0
        self.raw: RawObservation = np.empty(0)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (len(ACTION_NAMES),), np.float32)
        self._cameras = cameras
        self._renderers = renderers or Renderers()
        spaces: dict[str, gym.Space[Any]] = {
            "agent_pos": _box(len(STATE_NAMES)),
            "environment_state": _box(len(ENVIRONMENT_NAMES)),
        }
        if cameras:
            images = {name: _image(size) for name, size in cameras.items()}
            spaces["pixels"] = gym.spaces.Dict(images)
        self.observation_space = gym.spaces.Dict(spaces)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self._steps = 0
        self.raw = self._world.reset(seed)
        return self._observe(self.raw), {"is_success": False, "progress": 0.0}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        outcome = self._world.step(action)
        self.raw = outcome.raw
        self._steps += 1
        truncated = not outcome.success and self._steps >= self._max_episode_steps
        info = {"is_success": outcome.success, "progress": outcome.progress}
        return self._observe(outcome.raw), outcome.reward, outcome.success, truncated, info

    def render(self) -> "RenderedFrame":
        if self._renderer is None and not self._graphics_missing:
            try:
                self._renderer = Renderer(self._world.sim, self._render_size)
            except NoGraphics as error:
                self._graphics_missing = True
                gym.logger.warn(f"Videos will be black. {error}")
        if self._renderer is None:
            return np.zeros((self._render_size, self._render_size, 3), np.uint8)
        return self._renderer.frame()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        self._renderers.close()
        self._world.close()

    def _observe(self, raw: Any) -> dict[str, Any]:
        encoded: EncodedObservation = encode(raw, self.task)
        observed = {"agent_pos": encoded.state, "environment_state": encoded.environment}
        if not self._cameras:
            return observed
        return observed | {"pixels": self._renderers.images(self._world.sim, self._cameras)}


def _box(size: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _image(size: ImageSize) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255, (*size, 3), np.uint8)


ENV_TYPE = "lefleet_metaworld"


@EnvConfig.register_subclass(ENV_TYPE)
@dataclass
class LeFleetMetaWorld(EnvConfig):
    """MetaWorld's states, and the images of `cameras`. `task` names tasks and task sets, separated
    by commas."""

    task: str | None = "easy3"
    fps: int = FPS
    episode_length: int | None = None
    cameras: list[str] = field(default_factory=list)
    image_size: int = DEFAULT_IMAGE
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

    def __post_init__(self) -> None:
        for name in self.cameras:
            key, shape = f"pixels/{name}", (self.image_size, self.image_size, 3)
            self.features[key] = PolicyFeature(FeatureType.VISUAL, shape)
            self.features_map[key] = f"{OBS_IMAGES}.{name}"

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        size = ImageSize(self.image_size, self.image_size)
        return {
            "episode_length": self.episode_length,
            "cameras": dict.fromkeys(self.cameras, size),
        }

    def create_envs(
        self, n_envs: int, use_async_envs: bool = False
    ) -> dict[str, dict[int, gym.vector.VectorEnv]]:
        """One group per task, so that LeRobot reports success per task. Raises BadInput."""
        require_cameras(self.cameras)
        if not SMALLEST_IMAGE <= self.image_size <= LARGEST_IMAGE:
            raise BadInput(
                f"image_size: {self.image_size} is not from {SMALLEST_IMAGE} to {LARGEST_IMAGE}."
            )
        is_async = use_async_envs and n_envs > 1
        vector = gym.vector.AsyncVectorEnv if is_async else gym.vector.SyncVectorEnv
        mode = gym.vector.AutoresetMode.NEXT_STEP
        groups: dict[str, dict[int, gym.vector.VectorEnv]] = {}
        for task in resolve_tasks((self.task or "").split(",")):
            how = {**self.gym_kwargs, "renderers": Renderers()}
            make = freeze_after_episode_end(partial(MetaWorldEnv, task, **how))
            groups[task] = {0: vector([make] * n_envs, autoreset_mode=mode)}
        return groups


def _make_expert(env: MetaWorldEnv) -> Callable[[dict[str, Any]], Action]:
    expert = Expert(env.task)
    return lambda _: expert.act(env.raw)


lefleet.experts.register(
    ENV_TYPE,
    _make_expert,
    columns={ACTION: ACTION_NAMES, OBS_STATE: STATE_NAMES, OBS_ENV_STATE: ENVIRONMENT_NAMES},
)
