"""A teleoperator without a person: the scripted expert of a simulated robot's task."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.teleoperators.config import TeleoperatorConfig
from lerobot.teleoperators.teleoperator import Teleoperator
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from lefleet.robots.device import LeFleetSim, SimState, connected_robots, find_connected
from lefleet.sim.encode import ACTION_NAMES
from lefleet.sim.world import Action, Expert, RecoveringExpert

_STOP = np.array([0.0, 0.0, 0.0, -1.0], np.float32)


@TeleoperatorConfig.register_subclass("lefleet_sim_expert")
@dataclass(kw_only=True)
class LeFleetSimExpertConfig(TeleoperatorConfig):
    """Which simulated robot the expert steers."""

    robot_id: str = ""
    """`--robot.id` of a simulated robot in the same process. Empty: the only one."""


class LeFleetSimExpert(Teleoperator):
    """Plays the script of the robot's task, from the state that the robot last observed.

        expert = LeFleetSimExpert(LeFleetSimExpertConfig(robot_id="arm-1"))
        expert.connect()
        robot.get_observation()
        robot.send_action(expert.get_action())

    The action is the script's displacement. From an episode's beginning it is the script's own.
    Where others drove before, the expert first stops and opens the gripper, for one call, and then
    recovers: see `RecoveringExpert`. It tells this from the robot, which has then accepted more
    than the expert's last action, or is in another episode; nothing else tells a LeRobot
    teleoperator that it takes over.

    So LeRobot's smooth handover works, although it is made for positions: it moves the robot's
    command from the last one to the teleoperator's first one within a second, which brings the
    hand to a stop.

    The thread of the control loop calls it. Robots may be connected before or after it.
    """

    config_class = LeFleetSimExpertConfig
    name = "lefleet_sim_expert"

    def __init__(self, config: LeFleetSimExpertConfig) -> None:
        super().__init__(config)
        self.config = config
        self._is_connected = False
        self._turn: _Turn | None = None

    @property
    def action_features(self) -> dict[str, type]:
        return dict.fromkeys(ACTION_NAMES, float)

    @property
    def feedback_features(self) -> dict[str, type]:
        """None: it has no motors."""
        return {}

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def is_calibrated(self) -> bool:
        return True

    def connect(self, calibrate: bool = True) -> None:  # noqa: ARG002
        """Find the robot if any is connected, so that a wrong id fails before something moves."""
        if self._is_connected:
            raise DeviceAlreadyConnectedError(f"{self.name} is already connected.")
        if connected_robots():
            find_connected(self.config.robot_id)
        self._is_connected = True

    def disconnect(self) -> None:
        self._require_connected()
        self._is_connected = False
        self._turn = None

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_action(self) -> dict[str, float]:
        self._require_connected()
        robot = find_connected(self.config.robot_id)
        state = robot.state
        if self._turn is None or not self._turn.goes_on(robot, state):
            self._turn = _Turn(robot, state)
        return dict(zip(ACTION_NAMES, self._turn.act(state).tolist(), strict=True))

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        raise NotImplementedError(f"{self.name} has no motors that could be moved.")

    def _require_connected(self) -> None:
        if not self._is_connected:
            raise DeviceNotConnectedError(f"{self.name} is not connected. Call connect() first.")


class _Turn:
    """The time from one takeover to the next moment at which somebody else drives."""

    def __init__(self, robot: LeFleetSim, state: SimState) -> None:
        task = robot.config.task
        self._robot = robot
        self._episode = state.extras.episode
        self._commands = state.commands
        self._must_stop = state.extras.steps > 0
        self._expert = RecoveringExpert(task) if self._must_stop else Expert(task)

    def goes_on(self, robot: LeFleetSim, state: SimState) -> bool:
        """Whether the robot has accepted nothing but the last action since."""
        is_same = robot is self._robot and state.extras.episode == self._episode
        return is_same and 0 <= state.commands - self._commands <= 1

    def act(self, state: SimState) -> Action:
        self._commands = state.commands
        if self._must_stop:
            self._must_stop = False
            return _STOP
        return self._expert.act(state.raw)
