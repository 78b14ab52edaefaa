"""The seam between the engine and what it steps: the world of one episode.

There are two: `metaworld`, LeFleet's own simulation, and `gym_world`, any environment of LeRobot.
Both observe as LeRobot's environments do (agent_pos, environment_state, pixels), one row at a time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lefleet.sim.world import Action

if TYPE_CHECKING:
    from lefleet.sim.render import RenderedFrame

EnvObservation = dict[str, Any]
"""Arrays by name, some in dicts of their own, without a dimension for the batch."""


class WorldStep(NamedTuple):
    """What one step led to."""

    reward: float
    success: bool
    ended: bool
    """The world says that the episode is over."""


class ActionRange(NamedTuple):
    """Smallest and largest value of each part of an action."""

    low: Action
    high: Action

    def clip(self, action: Action) -> Action:
        return np.clip(action, self.low, self.high)

    @property
    def scale(self) -> npt.NDArray[np.float64]:
        """Half of the range: what noise is a share of. 1 where there is no limit."""
        half = (self.high.astype(np.float64) - self.low) / 2
        return np.where(np.isfinite(half), half, 1.0)


class Camera(Protocol):
    """Frames of a world for a film."""

    def frame(self) -> "RenderedFrame": ...

    def close(self) -> None: ...


class EpisodeWorld(Protocol):
    """One task, reset by seed and stepped to the end of an episode.

    What `start` and `progress` say is true from `reset` on.
    """

    instruction: str
    """The task in words."""
    horizon: int
    """Steps before an episode is cut off, unless a batch says otherwise."""
    max_steps: int
    """More steps than this are impossible."""
    fps: int
    actions: ActionRange
    start: str
    """Digest of the initial state."""

    @property
    def progress(self) -> float:
        """From 0 to 1, the best of all steps; 1 for a success only."""
        ...

    def reset(self, seed: int, number: int) -> EnvObservation:
        """Begin the episode of `seed`, which is the `number`th of its block, from 0 on; the first
        observation."""
        ...

    def step(self, action: Action) -> WorldStep: ...

    def observe(self) -> EnvObservation:
        """The state as it is now. Not every step is looked at, and rendering is dear."""
        ...

    def frame(self, observation: EnvObservation) -> dict[str, npt.NDArray[Any]]:
        """What a dataset keeps of an observation, by LeRobot's names."""
        ...

    def expert(self, *, takes_over: bool) -> Callable[[], Action]:
        """A fresh expert that acts on what the world is now; `takes_over`: in the middle of an
        episode that has gone wrong."""
        ...

    def camera(self) -> Camera:
        """Raises NoGraphics where there can be no film."""
        ...
