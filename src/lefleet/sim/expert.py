"""MetaWorld's scripted experts, with actions in the range that the robot executes."""

import warnings

import numpy as np
import numpy.typing as npt

from lefleet.sim.tasks import TASKS

Action = npt.NDArray[np.float32]


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
