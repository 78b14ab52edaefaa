"""A small arm that judges every command itself: how old it is, whose it is, what a fallback is."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.factory import make_pre_post_processors
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot

from tests.edge.stamped.configuration_stamped import StampedConfig
from tests.edge.stamped.modeling_stamped import ENVIRONMENT, STEP, StampedPolicy
from tests.policy import tiny

PACKAGE = "tests.edge.stamped"
JOINTS = ("shoulder.pos", "elbow.pos", "gripper.pos")
COMMANDS = ("shoulder.vel", "elbow.pos", "gripper.pos")
"""By the policy: the step's number, the clock of the observation, the model's mark."""
CLOCK = "clock"
INITIAL = {"shoulder.pos": 0.5, "elbow.pos": -0.25, "gripper.pos": 0.75}
FPS = 50
SLACK_S = 0.25
"""From the engine's decision to the driver, on a machine that is busy."""


def stamped(folder: Path, *, mark: float, **settings: Any) -> Path:
    """A checkpoint of the stamped policy; `mark` is its only weight."""
    features = {
        tiny.STATE: PolicyFeature(FeatureType.STATE, (len(JOINTS),)),
        ENVIRONMENT: PolicyFeature(FeatureType.ENV, (1,)),
    }
    config = StampedConfig(
        input_features=features,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(COMMANDS),))},
        device="cpu",
        **settings,
    )
    policy = StampedPolicy(config)
    with torch.no_grad():
        policy.mark.fill_(mark)
    policy.save_pretrained(folder)
    for processor in make_pre_post_processors(config, dataset_stats=tiny.statistics(config)):
        processor.save_pretrained(folder)
    named = {tiny.STATE: JOINTS, ENVIRONMENT: (CLOCK,)}
    tiny.write_contract(folder, config, action_names=COMMANDS, vectors=named, fps=FPS)
    return folder


@RobotConfig.register_subclass("chaos_arm")
@dataclass(kw_only=True)
class ArmConfig(RobotConfig):
    """It has no settings."""


class Arm(Robot):
    """One joint that turns at a velocity, two that go where they are told.

    It observes its own clock, which comes back in every action of the policy. `on_command` is
    called with each command. The control loop's thread calls; `block` makes its next call wait.
    """

    config_class = ArmConfig
    name = "arm"
    vectors: ClassVar[Mapping[str, tuple[str, ...]]] = {tiny.STATE: JOINTS, ENVIRONMENT: (CLOCK,)}

    def __init__(self) -> None:
        super().__init__(ArmConfig())
        self.pose = dict(INITIAL)
        self.judge = Judge(self)
        self.began_s = time.monotonic()
        self.was_disconnected = False
        self._turning = 0.0
        self._moved_at_s = self.began_s
        self._blocked_s = self.longest_block_s = 0.0
        self._is_connected = False

    @property
    def observation_features(self) -> dict[str, Any]:
        return dict.fromkeys((*JOINTS, CLOCK), float)

    @property
    def action_features(self) -> dict[str, Any]:
        return dict.fromkeys(COMMANDS, float)

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def is_calibrated(self) -> bool:
        return True

    def connect(self, calibrate: bool = True) -> None:
        self._is_connected = True

    def disconnect(self) -> None:
        self._is_connected = False
        self.was_disconnected = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def block(self, seconds: float) -> None:
        """Hang in the next observation, as a driver may."""
        self._blocked_s = self.longest_block_s = seconds

    def get_observation(self) -> dict[str, Any]:
        assert self._is_connected
        seconds, self._blocked_s = self._blocked_s, 0.0
        time.sleep(seconds)
        self._move()
        return {**self.pose, CLOCK: time.monotonic() - self.began_s}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        assert self._is_connected
        self._move()
        self.judge.command(action, time.monotonic())
        self._turning = action.get("shoulder.vel", 0.0)
        self.pose |= {name: value for name, value in action.items() if name in JOINTS}
        return action

    def _move(self) -> None:
        now_s = time.monotonic()
        self.pose["shoulder.pos"] += self._turning * (now_s - self._moved_at_s)
        self._moved_at_s = now_s


class Judge:
    """Compares every command with the rules; `faults` says in words what broke one.

    The age is read from the command itself: the policy sends the clock back that it observed. What
    the engine says about the same command must agree.
    """

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self.engine: Any = None
        self.max_age_s = 0.0
        self.faults: list[str] = []
        self.executed = self.fallbacks = self.homing = 0
        self.oldest_s = self.longest_gap_s = 0.0
        self.digests: set[str] = set()
        self.marks: set[float] = set()
        self.servers: list[str] = []
        """Whose actions were executed, without repetitions."""
        self._last: dict[str, float] = {}
        self._last_at_s: float | None = None

    def command(self, action: Mapping[str, float], now_s: float) -> None:
        if set(action) >= set(JOINTS):
            self.homing += 1
            return
        if self._last_at_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_at_s)
        executed = self.engine.executed
        if executed.origin is None:
            self.fallbacks += 1
            self._judge_fallback(action)
        else:
            self.executed += 1
            self._judge_action(action, executed, now_s)
        self._last, self._last_at_s = dict(action), now_s

    def _judge_fallback(self, action: Mapping[str, float]) -> None:
        """Velocities are zero; positions stay at the last command, or where the joints are."""
        expected = {**(self._last or self._arm.pose), "shoulder.vel": 0.0}
        for name in COMMANDS:
            self._require(abs(action[name] - expected[name]) < 1e-4, f"fallback {action}")

    def _judge_action(self, action: Mapping[str, float], executed: Any, now_s: float) -> None:
        origin = executed.origin
        observed_s = self._arm.began_s + action["elbow.pos"]
        age_s = now_s - observed_s
        self.oldest_s = max(self.oldest_s, age_s)
        self._require(age_s <= self.max_age_s + SLACK_S, f"{age_s:.3f} s old at the robot")
        self._require(executed.age_s <= self.max_age_s, f"{executed.age_s:.3f} s old when taken")
        late_s = origin.observed_at_s - observed_s
        self._require(-1e-3 <= late_s <= SLACK_S, f"its observation was noted {late_s:.3f} s late")
        step = round(action["shoulder.vel"] / STEP) - 1
        self._require(step == executed.step, f"step {step} is said to be {executed.step}")
        self.digests.add(origin.digest)
        self.marks.add(action["gripper.pos"])
        if self.servers[-1:] != [origin.server]:
            self.servers.append(origin.server)

    def _require(self, is_kept: bool, fault: str) -> None:
        if not is_kept:
            self.faults.append(fault)
