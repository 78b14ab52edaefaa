"""One MetaWorld simulation with seeds that count and progress beside success, and its experts."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lefleet.errors import BadInput
from lefleet.sim.tasks import TASKS

RawObservation = npt.NDArray[np.float64]
Action = npt.NDArray[np.float32]

UNFINISHED = 0.99
"""Upper end of progress without success: 1.0 says that the task succeeded, and nothing else."""


MAX_STEPS = 500
"""MetaWorld refuses to step further."""


class StepOutcome(NamedTuple):
    """What one step led to."""

    raw: RawObservation
    reward: float
    success: bool
    progress: float


class World:
    """One task's simulation, reset by seed and stepped until success or the horizon.

    Progress in [0, 1] is the best of all steps so far. It is 1 once the task has succeeded.
    Before that it is the share of the object's initial distance to its target that has been
    closed, 1 - d/d0, at most 0.99. For the tasks that report no distance (assembly, box-close,
    disassemble, door-open, hammer) it is MetaWorld's shaped reward divided by its maximum of 10.
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise BadInput(f"task: no MetaWorld task is called {task!r}.")
        self.task = TASKS[task]
        self.sim = _make(self.task.metaworld_id)
        self.progress = 0.0
        self._initial_distance: float | None = None

    def reset(self, seed: int) -> RawObservation:
        """Start the episode that `seed` stands for: one seed, one initial state."""
        self.progress = 0.0
        self._initial_distance = None
        self.sim.seed(seed)
        raw, _ = self.sim.reset()
        return raw

    def step(self, action: npt.NDArray[np.floating[Any]]) -> StepOutcome:
        """One control step; actions are clipped to MetaWorld's range of [-1, 1]."""
        raw, reward, _, _, info = self.sim.step(np.clip(action, -1.0, 1.0, dtype=np.float64))
        success = bool(info["success"])
        self._advance(float(info["obj_to_target"]), float(reward), success=success)
        return StepOutcome(raw, float(reward), success, self.progress)

    def _advance(self, distance: float, reward: float, *, success: bool) -> None:
        if self._initial_distance is None:
            self._initial_distance = distance
        if success:
            self.progress = 1.0
            return
        if self._initial_distance > 0:
            now = 1.0 - distance / self._initial_distance
        else:
            now = reward / 10.0
        self.progress = max(self.progress, min(now, UNFINISHED))

    def close(self) -> None:
        self.sim.close()


def _make(metaworld_id: str) -> Any:
    """The bare environment with its goal visible and its seeds honoured.

    MetaWorld's benchmark classes build fifty fixed tasks first and hide the goal; going to the
    environment class directly is 20 times quicker and lets every seed draw its own initial state.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS

        sim = ALL_V3_ENVIRONMENTS[metaworld_id](render_mode=None, camera_name=None)
        sim._partially_observable = False  # noqa: SLF001
        # Bounds cached while the goal was hidden would clip it to zero.
        sim.__dict__.pop("sawyer_observation_space", None)
        sim._freeze_rand_vec = False  # noqa: SLF001
        sim._set_task_called = True  # noqa: SLF001
        sim.seeded_rand_vec = True
        sim.reset()
    return sim


RETREAT_STEPS = 15

_UP_AND_OPEN = np.array([0.0, 0.0, 1.0, -1.0], np.float32)


class Expert:
    """Chooses actions from raw observations; it recovers from most states."""

    def __init__(self, task: str) -> None:
        # The scripts ask for up to 12 times the robot's range and warn about it at every step.
        warnings.filterwarnings("ignore", message="Constant\\(s\\) may be too high")
        from metaworld.policies import ENV_POLICY_MAP

        self._policy = ENV_POLICY_MAP[TASKS[task].metaworld_id]()

    def act(self, raw: RawObservation) -> Action:
        """The expert's action, clipped to the range that the robot executes."""
        # Some scripts write into what they are given: that of door-open moves the door.
        return np.clip(self._policy.get_action(raw.copy()), -1.0, 1.0).astype(np.float32)


class RecoveringExpert:
    """An expert that is called in when something has already gone wrong.

    The scripts assume that they opened the gripper themselves and hover for ever above an object
    with a closed one. So it first rises and opens the gripper, then follows the script.
    """

    def __init__(self, task: str) -> None:
        self._expert = Expert(task)
        self._retreat_left = RETREAT_STEPS

    def act(self, raw: RawObservation) -> Action:
        if self._retreat_left:
            self._retreat_left -= 1
            return _UP_AND_OPEN
        return self._expert.act(raw)
