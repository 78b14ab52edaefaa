"""MetaWorld's scripted experts, with actions in the range that the robot executes."""

import warnings

import numpy as np
import numpy.typing as npt

from lefleet.sim.tasks import TASKS

Action = npt.NDArray[np.float32]


RETREAT_STEPS = 15

_UP_AND_OPEN = np.array([0.0, 0.0, 1.0, -1.0], np.float32)


class Expert:
    """Looks at the raw observation and says what to do next; it recovers from most states."""

    def __init__(self, task: str) -> None:
        # The scripts ask for up to 12 times the robot's range and warn about it at every step.
        warnings.filterwarnings("ignore", message="Constant\\(s\\) may be too high")
        from metaworld.policies import ENV_POLICY_MAP

        self._policy = ENV_POLICY_MAP[TASKS[task].metaworld_id]()

    def act(self, raw: npt.NDArray[np.float64]) -> Action:
        """The expert's action, clipped to the range that the robot executes."""
        return np.clip(self._policy.get_action(raw), -1.0, 1.0).astype(np.float32)


class RecoveringExpert:
    """An expert that is called in when something has already gone wrong.

    The scripts assume that they opened the gripper themselves and hover for ever above an object
    with a closed one. So it first rises and opens the gripper, then follows the script.
    """

    def __init__(self, task: str) -> None:
        self._expert = Expert(task)
        self._retreat_left = RETREAT_STEPS

    def act(self, raw: npt.NDArray[np.float64]) -> Action:
        if self._retreat_left:
            self._retreat_left -= 1
            return _UP_AND_OPEN
        return self._expert.act(raw)
