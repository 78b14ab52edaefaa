"""Settings of the simulated robot, and its registry entry `lefleet_sim`."""

import difflib
from dataclasses import dataclass, field
from typing import Literal

from lerobot.robots.config import RobotConfig

from lefleet.errors import BadInput
from lefleet.sim.render import SMALLEST_IMAGE, require_cameras
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS

FIRST_SEED = 100_000_000
"""First seed of evaluations: a policy must not drive on initial states of its training data."""


@RobotConfig.register_subclass("lefleet_sim")
@dataclass(kw_only=True)
class LeFleetSimConfig(RobotConfig):
    """One arm in front of one MetaWorld task."""

    task: str = "push"
    """A MetaWorld task."""
    seed: int = FIRST_SEED
    """Seed of the first episode; episode n has seed + n."""
    cameras: list[str] = field(default_factory=list)
    """Cameras to render: corner, gripper, behind, top."""
    camera_width: int = 224
    camera_height: int = 224
    time: Literal["wall", "stepped"] = "wall"
    """wall: the world moves at 80 steps per second. stepped: each action is one step."""
    horizon: int = 0
    """Steps after which an episode has failed, at most MetaWorld's 500. 0: the task's."""

    def __post_init__(self) -> None:
        """Replaces LeRobot's check, which expects the settings of real cameras."""


def check_config(config: LeFleetSimConfig) -> None:
    """Raise BadInput for a field that cannot be used.

    The device calls it: LeRobot's parser would hide an error that is raised while the config is
    built behind one of its own.
    """
    if config.task not in TASKS:
        raise BadInput(f"task: no MetaWorld task is called {config.task!r}.", _near(config.task))
    require_cameras(config.cameras)
    for name in ("camera_width", "camera_height"):
        if getattr(config, name) < SMALLEST_IMAGE:
            raise BadInput(f"{name}: must be at least {SMALLEST_IMAGE}.")
    if config.time not in ("wall", "stepped"):
        raise BadInput(f"time: {config.time!r} is neither wall nor stepped.")
    if config.seed < 0:
        raise BadInput(f"seed: must not be negative, is {config.seed}.")
    if not 0 <= config.horizon <= MAX_STEPS:
        raise BadInput(f"horizon: must be 0 to {MAX_STEPS}, is {config.horizon}.")


def _near(task: str) -> str:
    near = difflib.get_close_matches(task, TASKS, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "docs/simulation.md lists them."
