"""The guard around `Robot.send_action`: every action is judged before the robot's driver gets it.

It is the last code before the driver, so actions of the policy, the teleoperator, the interpolation
and the return to the initial position all pass it. `GuardedRobot` wraps a LeRobot robot, remembers
what was sent, counts and logs.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lerobot.robots.robot import Robot

from lefleet.edge.judge import GuardConfig, Judgement, Reason, check_guard, judge, number_of

logger = logging.getLogger(__name__)


class GuardCounts(NamedTuple):
    """Actions since the robot was wrapped."""

    passed: int
    clamped: int
    refused: int
    reasons: dict[tuple[str, Reason], int]
    """Values that were not allowed, by joint and reason."""


class GuardedRobot(Robot):
    """A robot whose every action is judged first; everything else is the wrapped robot's.

        robot = GuardedRobot(make_robot_from_config(config), GuardConfig(max_step=5))
        wrapper = ThreadSafeRobot(robot)

    Attributes that are not defined here (`name`, `cameras`, `vectors`, `extras`, ...) are read
    from the wrapped robot, `inner`. LeRobot's `ThreadSafeRobot` around it ensures that one thread
    calls it at a time; `last_sent` and `counts` may be read by any thread.
    """

    def __init__(
        self, robot: Robot, config: GuardConfig, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # LeRobot's initializer is not called: it would read a calibration of its own.
        self.inner = robot
        self.guard = config
        self.last_sent: Mapping[str, float] = {}
        """The last command that reached the driver."""
        self.is_corrected = False
        """Whether that differs from what was asked for."""
        self._observed: dict[str, float] = {}
        self._outcomes: Counter[str] = Counter()
        self._reasons: Counter[tuple[str, Reason]] = Counter()
        self._report = _Report(clock)
        self._joints = frozenset(joints_of(robot))
        self._unseen = self._joints - robot.observation_features.keys()
        check_guard(config, self._joints)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while __init__ has not run
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __str__(self) -> str:
        return str(self.inner)

    def __del__(self) -> None:
        """The wrapped robot disconnects itself."""

    @property
    def observation_features(self) -> dict[str, Any]:
        return self.inner.observation_features

    @property
    def action_features(self) -> dict[str, Any]:
        return self.inner.action_features

    @property
    def is_connected(self) -> bool:
        return self.inner.is_connected

    @property
    def is_calibrated(self) -> bool:
        return self.inner.is_calibrated

    def connect(self, calibrate: bool = True) -> None:
        """Connect. Nothing is known about the robot's joints and commands yet."""
        self.inner.connect(calibrate)
        self.last_sent, self._observed = {}, {}

    def disconnect(self) -> None:
        self._report.write()
        self.inner.disconnect()

    def calibrate(self) -> None:
        self.inner.calibrate()

    def configure(self) -> None:
        self.inner.configure()

    def get_observation(self) -> dict[str, Any]:
        observation: dict[str, Any] = self.inner.get_observation()
        positions = {k: number_of(v) for k, v in observation.items() if k.endswith(".pos")}
        self._observed = {k: value for k, value in positions.items() if math.isfinite(value)}
        return observation

    def send_action(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Send what the guard allows; returns what the robot says that it executes."""
        if not self.last_sent and not self._observed:
            self.get_observation()
        action = self._with_velocities(action)
        judgement = judge(
            action,
            self.guard,
            self.last_sent,
            self._observed,
            joints=self._joints,
            unseen=self._unseen,
        )
        self.is_corrected = bool(judgement.reasons)
        self._outcomes[judgement.outcome] += 1
        self._reasons.update(judgement.reasons.items())
        executed = self.inner.send_action(dict(judgement.send)) if judgement.send else {}
        if judgement.send:
            self.last_sent = judgement.send
        if judgement.reasons:
            self._report.add(judgement)
        return executed

    def new_episode(self) -> None:
        """Reset a simulated scene: what was sent before says nothing about its joints."""
        self.inner.new_episode()
        self.last_sent, self._observed = {}, {}

    def halt(self) -> None:
        """Stop joints that move by velocity: they go on until they are told to, whoever drives."""
        moving = [name for name, value in self.last_sent.items() if name.endswith(".vel") and value]
        if moving and self.inner.is_connected:
            self.send_action({**self.last_sent, **dict.fromkeys(moving, 0.0)})

    def _with_velocities(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """A command that names no velocity, as LeRobot's way to the initial pose, means to stand.

        A command in other words than the robot's own actions is left as it is.
        """
        own = self.inner.action_features
        if not own.keys() & action.keys():
            return action
        return {**{name: 0.0 for name in own if name.endswith(".vel")}, **action}

    @property
    def counts(self) -> GuardCounts:
        by = self._outcomes
        return GuardCounts(by["passed"], by["clamped"], by["refused"], dict(self._reasons))


def joints_of(robot: Robot) -> set[str]:
    """Joints that a command can name: homing sends the observed positions."""
    positions = {name for name in robot.observation_features if name.endswith(".pos")}
    return {*robot.action_features, *positions}


_KINDS = 5
"""Kinds of changed actions that one log line names."""


class _Report:
    """Logs what was not allowed, at most once a second, with how often."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = -math.inf
        self._counts: Counter[str] = Counter()

    def add(self, judgement: Judgement) -> None:
        reasons = ", ".join(f"{joint} {why}" for joint, why in sorted(judgement.reasons.items()))
        self._counts[f"{judgement.outcome} ({reasons})"] += 1
        if self._clock() >= self._next:
            self.write()

    def write(self) -> None:
        if not self._counts:
            return
        self._next = self._clock() + 1.0
        parts = [f"{count} × {what}" for what, count in self._counts.most_common(_KINDS)]
        if len(self._counts) > _KINDS:
            parts.append(f"{len(self._counts) - _KINDS} other kinds")
        logger.warning("Guard: %s", "; ".join(parts))
        self._counts.clear()
