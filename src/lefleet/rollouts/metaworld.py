"""LeFleet's own simulation as a world of the engine."""

import hashlib
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lefleet.rollouts.worlds import ActionRange, Camera, EnvObservation, WorldStep
from lefleet.sim.encode import ACTION_NAMES, FPS, encode
from lefleet.sim.render import CameraSizes, Renderer, Renderers
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS, Action, Expert, RawObservation, RecoveringExpert, World

if TYPE_CHECKING:
    from lefleet.sim.render import RenderedFrame

_ONES = np.ones(len(ACTION_NAMES), np.float32)


class MetaWorld:
    """One task of MetaWorld, with the images of some cameras beside its vectors."""

    def __init__(
        self,
        task: str,
        cameras: CameraSizes = MappingProxyType({}),
        renderers: Renderers | None = None,
    ) -> None:
        """`renderers`: shared with other worlds; whoever made them closes them."""
        self.instruction = TASKS[task].instruction
        self.horizon = TASKS[task].horizon
        self.max_steps = MAX_STEPS
        self.fps = FPS
        self.actions = ActionRange(-_ONES, _ONES)
        self.start = ""
        self._task = task
        self._world = World(task)
        self._cameras = cameras
        self._renderers = renderers or Renderers()
        self._raw: RawObservation = np.empty(0)
        self._observation: EnvObservation = {}

    @property
    def sim(self) -> Any:
        """MetaWorld's own simulation."""
        return self._world.sim

    @property
    def progress(self) -> float:
        return self._world.progress

    def reset(self, seed: int, number: int) -> EnvObservation:  # noqa: ARG002 - any seed is a state
        self._raw = self._world.reset(seed)
        self.start = hashlib.sha256(self._raw.tobytes()).hexdigest()[:16]
        self._observation = {}
        return self.observe()

    def step(self, action: Action) -> WorldStep:
        outcome = self._world.step(action)
        self._raw = outcome.raw
        self._observation = {}
        return WorldStep(outcome.reward, outcome.success, outcome.success)

    def observe(self) -> EnvObservation:
        if not self._observation:
            encoded = encode(self._raw, self._task)
            images = self._renderers.images(self._world.sim, self._cameras)
            self._observation = {
                "agent_pos": encoded.state,
                "environment_state": encoded.environment,
                **({"pixels": images} if images else {}),
            }
        return self._observation

    def frame(self, observation: EnvObservation) -> dict[str, npt.NDArray[Any]]:
        images = observation.get("pixels", {})
        return {
            "observation.state": observation["agent_pos"],
            "observation.environment_state": observation["environment_state"],
            **{f"observation.images.{name}": image for name, image in images.items()},
        }

    def expert(self, *, takes_over: bool) -> Callable[[], Action]:
        expert = RecoveringExpert(self._task) if takes_over else Expert(self._task)
        return lambda: expert.act(self._raw)

    def camera(self) -> Camera:
        return _FilmCamera(self)


class _FilmCamera:
    """The scene from the corner, and beside it what the policy sees, in the same height."""

    def __init__(self, world: MetaWorld) -> None:
        self._world = world
        self._renderer = Renderer(world.sim)

    def frame(self) -> "RenderedFrame":
        scene = self._renderer.frame()
        seen = self._world.observe().get("pixels", {}).values()
        return np.concatenate([scene, *(_resized(image, len(scene)) for image in seen)], axis=1)

    def close(self) -> None:
        self._renderer.close()


def _resized(image: "RenderedFrame", height: int) -> "RenderedFrame":
    """To `height`, every pixel repeated or left out, so that it shows what the policy got."""
    width = round(image.shape[1] * height / image.shape[0])
    rows = np.arange(height) * image.shape[0] // height
    columns = np.arange(width) * image.shape[1] // width
    return image[rows][:, columns]
