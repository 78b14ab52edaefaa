"""Episodes of one task: the world, its steps, success and progress."""

from typing import NamedTuple

from lefleet.robots.command import Command
from lefleet.sim.encode import EncodedObservation, encode
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS, RawObservation, World


class SimExtras(NamedTuple):
    """What a simulation knows about an episode and a real robot does not."""

    episode: int
    """0 for the first one."""
    seed: int
    steps: int
    success: bool
    """Whether the task has succeeded at any step."""
    progress: float
    """Best so far, 0 to 1."""
    finished: bool
    """Success, or the horizon is reached."""


class Scene:
    """Starts with episode 0. A step is one of LeFleet's own engine: same seed and actions, same
    numbers, bit for bit.

    After the horizon the scene is at rest: steps do nothing. After a success it moves on, as a
    real one does.
    """

    def __init__(self, task: str, seed: int, horizon: int) -> None:
        self.world = World(task)
        self._task = task
        self._first_seed = seed
        self._horizon = min(horizon or TASKS[task].horizon, MAX_STEPS)
        self.start(0)

    def start(self, episode: int) -> None:
        """Reset the world to this episode's initial state."""
        seed = self._first_seed + episode
        self.raw: RawObservation = self.world.reset(seed)
        self.observation: EncodedObservation = encode(self.raw, self._task)
        self.extras = SimExtras(episode, seed, 0, success=False, progress=0.0, finished=False)

    @property
    def is_at_rest(self) -> bool:
        return self.extras.steps >= self._horizon

    def step(self, command: Command) -> None:
        """One control step, unless the scene is at rest."""
        if self.is_at_rest:
            return
        outcome = self.world.step(command.action(self.observation.state))
        self.raw = outcome.raw
        self.observation = encode(self.raw, self._task)
        steps = self.extras.steps + 1
        success = self.extras.success or outcome.success
        self.extras = self.extras._replace(
            steps=steps,
            success=success,
            progress=outcome.progress,
            finished=success or steps >= self._horizon,
        )

    def close(self) -> None:
        self.world.close()
