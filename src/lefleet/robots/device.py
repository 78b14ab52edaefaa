"""The simulated robot behind LeRobot's interface."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from lerobot.robots.robot import Robot
from lerobot.utils.constants import OBS_ENV_STATE, OBS_STATE
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from lefleet.errors import BadInput
from lefleet.robots.command import Command, Displacement, parse_command
from lefleet.robots.config import LeFleetSimConfig, check_config
from lefleet.robots.scene import Scene, SimExtras
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, ROBOT_TYPE, STATE_NAMES
from lefleet.sim.render import ImageSize, Renderers
from lefleet.sim.world import RawObservation

OnCommand = Callable[[Mapping[str, float], float], None]
"""Called with each command that reached the driver, and the robot's clock at that moment."""

_ROUNDING = 1e-6
"""Steps. A clock that is read exactly at a step may be off by rounding."""


_robots: "weakref.WeakSet[LeFleetSim]" = weakref.WeakSet()
"""All that exist in this process, for who steers one by its id."""
_robots_lock = threading.Lock()
"""Held to add one and to list them; robots that are garbage leave without it."""


class SimState(NamedTuple):
    """What a script that steers the robot may know, and a policy does not."""

    raw: RawObservation
    """MetaWorld's own observation."""
    extras: SimExtras
    commands: int
    """How many the robot has accepted since it was connected."""


class LeFleetSim(Robot):
    """A MetaWorld arm: hand and gripper, with the objects of its task as a vector of their own.

        robot = LeFleetSim(LeFleetSimConfig(task="push", time="stepped"))
        robot.connect()
        observation = robot.get_observation()
        robot.send_action(dict.fromkeys(robot.action_features, 0.5))
        robot.extras.success
        robot.new_episode()

    Time. `stepped`: each action is one control step, and nothing else moves the world. `wall`: the
    world moves at 80 steps per second, and the last command stays in force until another one
    comes, as with a real velocity controller. An episode's time begins with its first command, so
    that a slow start costs no steps. There is no thread: each call first makes the steps that are
    due, at most the rest of the episode (500 steps of 0.6 ms).

    Any thread may call it, one at a time: LeRobot's `ThreadSafeRobot` ensures that. Only `extras`
    and `state` may be read at any time; they are those after the last call.
    """

    config_class = LeFleetSimConfig
    name = "lefleet_sim"
    vectors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        OBS_STATE: STATE_NAMES,
        OBS_ENV_STATE: ENVIRONMENT_NAMES,
    }
    """Which scalars form which of the policy's vectors."""

    def __init__(
        self,
        config: LeFleetSimConfig,
        clock: Callable[[], float] = time.monotonic,
        on_command: OnCommand = lambda action, clock: None,  # noqa: ARG005
    ) -> None:
        check_config(config)
        super().__init__(config)
        self.robot_type = ROBOT_TYPE
        self.config = config
        self.on_command = on_command
        self._clock = clock
        self._connected: _Connected | None = None
        with _robots_lock:
            _robots.add(self)

    @property
    def cameras(self) -> dict[str, tuple[int, int, int]]:
        """Shapes of the images by camera."""
        shape = (self.config.camera_height, self.config.camera_width, 3)
        return dict.fromkeys(self.config.cameras, shape)

    @property
    def observation_features(self) -> dict[str, Any]:
        return dict.fromkeys((*STATE_NAMES, *ENVIRONMENT_NAMES), float) | self.cameras

    @property
    def action_features(self) -> dict[str, type]:
        return dict.fromkeys(ACTION_NAMES, float)

    @property
    def is_connected(self) -> bool:
        return self._connected is not None

    @property
    def is_calibrated(self) -> bool:
        return True

    def connect(self, calibrate: bool = True) -> None:  # noqa: ARG002
        """Build the scene and start episode 0."""
        if self._connected is not None:
            raise DeviceAlreadyConnectedError(f"{self.name} is already connected.")
        self._connected = _Connected(self.config)

    def disconnect(self) -> None:
        self._get_connected().close()
        self._connected = None

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, Any]:
        """Scalars as floats, cameras as RGB uint8 of height x width x 3."""
        connected = self._get_connected()
        connected.catch_up(self._clock())
        return connected.observe()

    def send_action(self, action: Mapping[str, Any]) -> dict[str, float]:
        """Displacements by ACTION_NAMES, or positions by STATE_NAMES; returns what is executed."""
        connected = self._get_connected()
        command = parse_command(action)
        now = self._clock()
        connected.catch_up(now)
        connected.accept(command, now)
        names = ACTION_NAMES if isinstance(command, Displacement) else STATE_NAMES
        sent = dict(zip(names, command.values.tolist(), strict=True))
        self.on_command(sent, now)
        return sent

    @property
    def extras(self) -> SimExtras:
        """The episode after the last call."""
        return self._get_connected().scene.extras

    @property
    def state(self) -> SimState:
        """The simulation after the last call, which is what was last observed."""
        connected = self._get_connected()
        scene = connected.scene
        return SimState(scene.raw, scene.extras, connected.commands)

    def new_episode(self) -> None:
        """Reset the scene to the initial state of the next seed; no command is in force."""
        self._get_connected().new_episode()

    def _get_connected(self) -> "_Connected":
        if self._connected is None:
            raise DeviceNotConnectedError(f"{self.name} is not connected. Call connect() first.")
        return self._connected


def connected_robots() -> "list[LeFleetSim]":
    """The simulated robots of this process that are connected."""
    with _robots_lock:
        robots = list(_robots)
    return [one for one in robots if one.is_connected]


def find_connected(robot_id: str) -> LeFleetSim:
    """The connected robot with this `--robot.id`; an empty one stands for the only robot."""
    robots = connected_robots()
    if not robots:
        raise DeviceNotConnectedError("No simulated robot is connected in this process.")
    fitting = [one for one in robots if robot_id in ("", one.id)]
    if len(fitting) == 1:
        return fitting[0]
    ids = ", ".join(sorted(str(one.id) for one in robots))
    if fitting:
        raise BadInput(
            f"robot_id: {len(fitting)} connected robots fit {robot_id!r}.",
            f"Give each its own --robot.id, and name one of them; there are {ids}.",
        )
    raise BadInput(f"robot_id: no connected robot is called {robot_id!r}.", f"There are {ids}.")


class _Connected:
    """What exists between connect and disconnect: scene, renderer, and the command in force."""

    def __init__(self, config: LeFleetSimConfig) -> None:
        self.scene = Scene(config.task, config.seed, config.horizon)
        self._is_stepped = config.time == "stepped"
        size = ImageSize(height=config.camera_height, width=config.camera_width)
        self._cameras = dict.fromkeys(config.cameras, size)
        self._renderers = Renderers()
        self._in_force: Command | None = None
        self._began = 0.0
        self.commands = 0
        # The first image takes seconds, and may fail: before the robot is connected, not after.
        self._renderers.images(self.scene.world.sim, self._cameras)

    def accept(self, command: Command, now: float) -> None:
        self.commands += 1
        if self._is_stepped:
            self.scene.step(command)
            return
        if self._in_force is None:
            self._began = now
        self._in_force = command

    def catch_up(self, now: float) -> None:
        """Make the steps that are due in wall-clock time."""
        if self._in_force is None:
            return
        due = int((now - self._began) * FPS + _ROUNDING)
        while self.scene.extras.steps < due and not self.scene.is_at_rest:
            self.scene.step(self._in_force)

    def observe(self) -> dict[str, Any]:
        state, environment = self.scene.observation
        observation: dict[str, Any] = dict(zip(STATE_NAMES, state.tolist(), strict=True))
        observation |= zip(ENVIRONMENT_NAMES, environment.tolist(), strict=True)
        return observation | self._renderers.images(self.scene.world.sim, self._cameras)

    def new_episode(self) -> None:
        self._in_force = None
        self.scene.start(self.scene.extras.episode + 1)

    def close(self) -> None:
        self._renderers.close()
        self.scene.close()
