"""The guard around `Robot.send_action`: limits per joint, largest step per tick, no NaN.

It is the last code before the robot's driver, so actions of the policy, the teleoperator, the
interpolation and the return to the initial position all pass it. `judge` decides about one action
and has no state; `GuardedRobot` wraps a LeRobot robot, remembers what was sent, counts and logs.
"""

import difflib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from lerobot.robots.robot import Robot

from lefleet.errors import BadInput

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GuardConfig:
    """Limits of the commands that may reach the driver. Without any, only NaN is stopped.

    On the command line:
        --guard.limits='{shoulder_pan.pos: [-90, 90], x.vel: [-0.2, 0.2]}'
        --guard.max_step=5
    """

    mode: Literal["clamp", "refuse"] = "clamp"
    """clamp: move a value to the nearest allowed one. refuse: send the safe command instead."""
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest command by joint."""
    max_step: float | dict[str, float] = field(default_factory=dict)
    """Largest change of a command from one to the next, by joint; one number: for all .pos."""

    def step_of(self, joint: str) -> float:
        if isinstance(self.max_step, dict):
            return self.max_step.get(joint, math.inf)
        return self.max_step if joint.endswith(".pos") else math.inf


def check_guard(config: GuardConfig, joints: Iterable[str]) -> None:
    """Raise BadInput for a setting that cannot be used with a robot that has these joints."""
    known = sorted(joints)
    if config.mode not in ("clamp", "refuse"):
        raise BadInput(f"guard.mode: {config.mode!r} is neither clamp nor refuse.")
    for joint, bounds in config.limits.items():
        name = f"guard.limits: {joint}"
        _check_known("guard.limits", joint, known)
        if len(bounds) != 2 or any(math.isnan(bound) for bound in bounds):
            raise BadInput(f"{name} needs two numbers, smallest and largest, not {list(bounds)}.")
        if bounds[0] > bounds[1]:
            raise BadInput(f"{name}: the smallest, {bounds[0]:g}, is above {bounds[1]:g}.")
        if joint.endswith(".vel") and not bounds[0] <= 0 <= bounds[1]:
            raise BadInput(f"{name} must allow 0, which stops the joint; it is {list(bounds)}.")
    if isinstance(config.max_step, dict):
        for joint, step in config.max_step.items():
            _check_known("guard.max_step", joint, known)
            _check_step(step, f" for {joint}")
    else:
        _check_step(config.max_step, "")


def _check_step(step: float, of: str) -> None:
    if not step > 0:
        raise BadInput(f"guard.max_step: must be above 0, is {step:g}{of}.")


def _check_known(setting: str, joint: str, known: list[str]) -> None:
    if joint in known:
        return
    near = difflib.get_close_matches(joint, known, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(known)}."
    raise BadInput(f"{setting}: the robot has no {joint!r}.", hint)


Reason = Literal["not finite", "below limit", "above limit", "step too large"]


class Judgement(NamedTuple):
    """What may be sent instead of an action."""

    outcome: Literal["passed", "clamped", "refused"]
    send: dict[str, float]
    """Empty: send nothing."""
    reasons: dict[str, Reason]
    """By joint, where the action was not allowed."""


def judge(
    action: Mapping[str, Any],
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
) -> Judgement:
    """Decide about one action.

    A joint's step is measured from the last command if that contained the joint, else from its
    observed position (`.pos`) or from 0 (`.vel`); a joint without any of these has no step limit
    for its first command. Where a step cannot reach the limits, because the robot stands outside
    them, the step decides: the command moves towards the limits.

    A refused action is replaced by the safe command: the last one with velocities at 0, since a
    velocity controller would go on moving without a command. If nothing was sent before, joints
    hold their observed position; a robot without velocities then gets no command at all.
    """
    send: dict[str, float] = {}
    reasons: dict[str, Reason] = {}
    for joint, raw in action.items():
        value = _number(raw)
        if not math.isfinite(value):
            reasons[joint] = "not finite"
            continue
        send[joint], reason = _allowed(joint, value, config, last_sent, observed)
        if reason is not None:
            reasons[joint] = reason
    if not reasons:
        return Judgement("passed", send, reasons)
    if config.mode == "clamp" and "not finite" not in reasons.values():
        return Judgement("clamped", send, reasons)
    return Judgement("refused", _safe_command(action, config, last_sent, observed), reasons)


def _number(raw: Any) -> float:
    try:
        return float(raw)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        # An array or tensor of several numbers, among others.
        return math.nan


def _allowed(
    joint: str,
    value: float,
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
) -> tuple[float, Reason | None]:
    """The nearest allowed value, and why `value` is not."""
    low, high = config.limits.get(joint, (-math.inf, math.inf))
    allowed = min(max(value, low), high)
    reason: Reason | None = None
    if allowed != value:
        reason = "below limit" if value < low else "above limit"
    step, start = config.step_of(joint), _start(joint, last_sent, observed)
    if not math.isnan(start) and not start - step <= allowed <= start + step:
        allowed = min(max(allowed, start - step), start + step)
        reason = reason or "step too large"
    return allowed, reason


def _start(joint: str, last_sent: Mapping[str, float], observed: Mapping[str, float]) -> float:
    """Where a joint's step begins; NaN if nothing is known about it."""
    if joint in last_sent:
        return last_sent[joint]
    return 0.0 if joint.endswith(".vel") else observed.get(joint, math.nan)


def _safe_command(
    action: Mapping[str, Any],
    config: GuardConfig,
    last_sent: Mapping[str, float],
    observed: Mapping[str, float],
) -> dict[str, float]:
    if last_sent:
        return {k: 0.0 if k.endswith(".vel") else value for k, value in last_sent.items()}
    hold = {k: 0.0 if k.endswith(".vel") else observed.get(k, math.nan) for k in action}
    if not any(joint.endswith(".vel") for joint in hold):
        return {}
    unbounded = (-math.inf, math.inf)
    bounds = {joint: config.limits.get(joint, unbounded) for joint in hold}
    can_hold = all(bounds[joint][0] <= value <= bounds[joint][1] for joint, value in hold.items())
    return hold if can_hold else {}


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
        check_guard(config, joints_of(robot))

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
        positions = {k: _number(v) for k, v in observation.items() if k.endswith(".pos")}
        self._observed = {k: value for k, value in positions.items() if math.isfinite(value)}
        return observation

    def send_action(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Send what the guard allows; returns what the robot says that it executes."""
        if not self.last_sent and not self._observed:
            self.get_observation()
        action = self._with_velocities(action)
        judgement = judge(action, self.guard, self.last_sent, self._observed)
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
