"""Which commands reach the driver."""

import logging
import math
from dataclasses import dataclass, field
from itertools import pairwise

import draccus
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lerobot.robots import Robot
from lerobot.rollout.context import HardwareContext
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.rollout.strategies.core import RolloutStrategy

from lefleet.edge.guard import GuardedRobot
from lefleet.edge.judge import GuardConfig, judge
from lefleet.errors import BadInput
from lefleet.robots import LeFleetSim, LeFleetSimConfig
from lefleet.sim.encode import ACTION_NAMES, STATE_NAMES

CLAMP = GuardConfig(limits={"a.pos": (-1.0, 1.0), "b.vel": (-0.5, 0.5)}, max_step={"a.pos": 0.2})
REFUSE = GuardConfig("refuse", CLAMP.limits, CLAMP.max_step)
LAST = {"a.pos": 0.5, "b.vel": 0.3}
STILL = dict.fromkeys(ACTION_NAMES, 0.0)


@pytest.mark.parametrize("config", [CLAMP, REFUSE])
def test_an_action_inside_passes_unchanged(config):
    action = {"a.pos": 0.6, "b.vel": -0.5, "c.pos": 100}
    assert judge(action, config, LAST, {}) == ("passed", action, {})


@pytest.mark.parametrize(
    ("action", "clamped", "reasons"),
    [
        ({"a.pos": 0.9, "b.vel": 0.0}, {"a.pos": 0.7, "b.vel": 0.0}, {"a.pos": "step too large"}),
        ({"a.pos": 0.1}, {"a.pos": 0.3}, {"a.pos": "step too large"}),
        ({"a.pos": -5}, {"a.pos": 0.3}, {"a.pos": "below limit"}),
        ({"a.pos": 0.6, "b.vel": 9.0}, {"a.pos": 0.6, "b.vel": 0.5}, {"b.vel": "above limit"}),
        ({"b.vel": -0.5}, {"b.vel": -0.5}, {}),
    ],
)
def test_outside_it_is_clamped_or_replaced_by_the_safe_command(action, clamped, reasons):
    judgement = judge(action, CLAMP, LAST, {})
    assert judgement.send == pytest.approx(clamped)
    assert judgement.reasons == reasons
    refused = judge(action, REFUSE, LAST, {})
    assert refused.reasons == reasons
    assert refused.send == ({"a.pos": 0.5, "b.vel": 0.0} if reasons else action)


@pytest.mark.parametrize("config", [CLAMP, REFUSE, GuardConfig()])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "fast", [1.0, 2.0], 10**400])
def test_what_is_not_a_finite_number_never_passes(config, bad):
    judgement = judge({"a.pos": 0.5, "b.vel": bad}, config, LAST, {})
    assert judgement == ("refused", {"a.pos": 0.5, "b.vel": 0.0}, {"b.vel": "not finite"})


def test_before_the_first_command_steps_are_measured_from_the_observation():
    assert judge({"a.pos": 0.9}, CLAMP, {}, {"a.pos": 0.0}).send == {"a.pos": 0.2}
    assert judge({"a.pos": 0.9}, CLAMP, {"c.pos": 0.9}, {"a.pos": 0.0}).send == {"a.pos": 0.2}


@pytest.mark.parametrize("config", [CLAMP, REFUSE])
def test_a_limited_step_from_an_unknown_position_is_refused_until_it_is_known(config):
    refused = ("refused", {}, {"a.pos": "position unknown"})
    assert judge({"a.pos": 0.9}, config, {}, {}) == refused
    assert judge({"a.pos": 0.9}, config, {}, {"b.pos": 0.0}) == refused
    last = {"c.pos": 4.0, "b.vel": 0.3}
    held = judge({"a.pos": 0.9, "b.vel": 0.1}, config, last, {})
    assert held.send == {"c.pos": 4.0, "b.vel": 0.0}
    assert judge({"a.pos": 0.1}, config, {}, {"a.pos": 0.0}).send == {"a.pos": 0.1}
    never_seen = judge({"a.pos": 0.9}, config, {}, {}, unseen={"a.pos"})
    assert never_seen.send == {"a.pos": 0.9}


def test_a_driver_that_cannot_say_where_a_joint_stands_gets_no_step_of_any_size():
    class Blind(Driver):
        def get_observation(self):
            return super().get_observation() | {"a.pos": math.nan}

    driver = Blind()
    robot = GuardedRobot(driver, GuardConfig(max_step=0.1))
    robot.send_action({"a.pos": 50.0})
    assert driver.received == []
    assert robot.counts.reasons == {("a.pos", "position unknown"): 1}


@pytest.mark.parametrize(
    "config", [GuardConfig(limits={"a.pos": (-1, 1)}), GuardConfig(max_step=1)]
)
def test_what_is_no_joint_of_a_limited_robot_never_reaches_its_driver(config):
    driver = Driver()
    robot = GuardedRobot(driver, config)
    robot.send_action({"a.pos": 0.5, "A.pos": 900.0, "e.vel": 7.0})
    robot.send_action({"A.pos": 900.0})
    stop = {"a.pos": 0.5, "c.vel": 0.0, "d.vel": 0.0}
    assert driver.received == [stop, stop]
    assert robot.counts.reasons == {("A.pos", "no joint"): 2, ("e.vel", "no joint"): 1}
    strict = GuardedRobot(driver, GuardConfig("refuse", config.limits, config.max_step))
    strict.send_action({"a.pos": 0.5, "e.vel": 7.0})
    assert driver.received[2:] == [{"a.pos": 0.0, "c.vel": 0.0, "d.vel": 0.0}]


def test_before_the_first_command_a_robot_of_positions_gets_none_and_velocities_stop():
    nan = math.nan
    assert judge({"a.pos": nan}, CLAMP, {}, {"a.pos": 0.5}).send == {}
    assert judge({"b.vel": nan}, CLAMP, {}, {}).send == {"b.vel": 0.0}
    both = {"a.pos": nan, "b.vel": 0.1}
    assert judge(both, CLAMP, {}, {"a.pos": 0.5}).send == {"a.pos": 0.5, "b.vel": 0.0}
    assert judge(both, CLAMP, {}, {}).send == {}, "a position that nobody knows"
    assert judge(both, CLAMP, {}, {"a.pos": 3.0}).send == {}, "a position outside the limits"


def test_a_robot_that_stands_outside_its_limits_returns_in_steps():
    positions, last = [], {"a.pos": 1.5}
    for _ in range(4):
        last = judge({"a.pos": 1.45}, CLAMP, last, {}).send
        positions.append(last["a.pos"])
    assert positions == pytest.approx([1.3, 1.1, 1.0, 1.0])


def test_one_step_for_all_positions_does_not_limit_velocities():
    config = GuardConfig(max_step=0.1)
    action = {"a.pos": 1.0, "b.vel": 1.0}
    assert judge(action, config, {"a.pos": 0.0, "b.vel": -1.0}, {}).send == {
        "a.pos": 0.1,
        "b.vel": 1,
    }
    config = GuardConfig(max_step={"b.vel": 0.1})
    assert judge(action, config, {}, {}).send == {"a.pos": 1.0, "b.vel": 0.1}


JOINTS = ("a.pos", "b.pos", "c.vel", "d.vel")
numbers = st.floats() | st.integers(-5, 5) | st.floats(-3, 3)
actions = st.dictionaries(st.sampled_from(JOINTS), numbers | st.none())
limits = st.dictionaries(
    st.sampled_from(JOINTS), st.tuples(st.floats(-2, 0), st.floats(0, 2)), max_size=4
)
sizes = st.floats(0.001, 3)
steps = sizes | st.dictionaries(st.sampled_from(JOINTS), sizes)


class Driver(Robot):
    """The smallest robot, with a list of what it was sent."""

    config_class, name = None, "driver"
    is_connected = is_calibrated = True
    observation_features = action_features = dict.fromkeys(JOINTS, float)

    def __init__(self) -> None:
        self.received: list[dict[str, float]] = []

    def get_observation(self):
        return dict.fromkeys(JOINTS, 0.0)

    def send_action(self, action):
        self.received.append(action)
        return action

    def connect(self, calibrate=True): ...
    def disconnect(self): ...
    def calibrate(self): ...
    def configure(self): ...


@settings(max_examples=300, deadline=None)
@given(
    config=st.builds(GuardConfig, st.sampled_from(["clamp", "refuse"]), limits, steps),
    sent=st.lists(actions, max_size=12),
)
def test_whatever_goes_in_only_allowed_commands_reach_the_driver(config, sent):
    driver = Driver()
    robot = GuardedRobot(driver, config)
    for action in sent:
        robot.send_action(action)
    last = {}
    for command in driver.received:
        for joint, value in command.items():
            assert math.isfinite(value)
            low, high = config.limits.get(joint, (-math.inf, math.inf))
            assert low <= value <= high
            is_stop = joint.endswith(".vel") and value == 0
            step = abs(value - last.get(joint, 0.0))
            assert is_stop or step <= config.step_of(joint) * (1 + 1e-9)
        last = command
    assert last == robot.last_sent
    counts = robot.counts
    assert counts.passed + counts.clamped + counts.refused == len(sent)
    assert bool(counts.reasons) == bool(counts.clamped + counts.refused)


@dataclass
class Inference:
    guard: GuardConfig = field(default_factory=GuardConfig)


@dataclass
class Program:
    inference: Inference = field(default_factory=Inference)


def test_it_is_configured_with_flags():
    flags = ["mode=refuse", "limits={a.pos: [-1, 2], b.vel: [-.inf, 1]}", "max_step=5"]
    args = [f"--inference.guard.{flag}" for flag in flags]
    config = draccus.parse(Program, args=args).inference.guard
    assert config == GuardConfig(
        "refuse", {"a.pos": (-1.0, 2.0), "b.vel": (-math.inf, 1.0)}, max_step=5.0
    )
    by_joint = draccus.parse(Program, args=["--inference.guard.max_step={a.pos: 0.1}"])
    assert by_joint.inference.guard.max_step == {"a.pos": 0.1}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GuardConfig(mode="stop"), "guard.mode: 'stop'"),
        (GuardConfig(limits={"a.poz": (0, 1)}), r"guard.limits: .* no 'a.poz'. Did you mean a.pos"),
        (GuardConfig(limits={"q": (0, 1)}), r"It has a.pos, b.pos, c.vel, d.vel"),
        (GuardConfig(limits={"a.pos": (2, 1)}), "guard.limits: a.pos: the smallest, 2, is above 1"),
        (GuardConfig(limits={"a.pos": (math.nan, 1)}), "guard.limits: a.pos needs two numbers"),
        (GuardConfig(limits={"c.vel": (0.1, 1)}), "guard.limits: c.vel must allow 0"),
        (GuardConfig(max_step={"e.pos": 1}), "guard.max_step: the robot has no 'e.pos'"),
        (GuardConfig(max_step=0), "guard.max_step: must be above 0, is 0."),
        (GuardConfig(max_step={"a.pos": -1}), "guard.max_step: must be above 0, is -1 for a.pos"),
        (GuardConfig(max_step=math.nan), "guard.max_step: must be above 0"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(config, message):
    with pytest.raises(BadInput, match=message):
        GuardedRobot(Driver(), config)


def test_counts_and_one_log_line_a_second(caplog):
    now = [0.0]
    config = GuardConfig(limits={"a.pos": (-1.0, 1.0)})
    robot = GuardedRobot(Driver(), config, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING, "lefleet.edge.guard"):
        for _ in range(100):
            robot.send_action({"a.pos": 3.0})
            now[0] += 0.02
        robot.send_action({"a.pos": 0.5})
        robot.send_action({"a.pos": math.nan})
        robot.disconnect()
    assert robot.counts[:3] == (1, 100, 1)
    assert robot.counts.reasons == {("a.pos", "above limit"): 100, ("a.pos", "not finite"): 1}
    assert robot.last_sent == {"a.pos": 0.5, "c.vel": 0.0, "d.vel": 0.0}
    lines = [record.message for record in caplog.records]
    assert lines[0] == "Guard: 1 × clamped (a.pos above limit)"
    assert lines[1] == "Guard: 50 × clamped (a.pos above limit)"
    assert len(lines) == 3
    assert lines[2].endswith("; 1 × refused (a.pos not finite)")


def test_a_command_that_the_driver_did_not_take_is_not_the_last_one():
    class Broken(Driver):
        def send_action(self, action):
            raise ConnectionError("cable")

    robot = GuardedRobot(Broken(), GuardConfig())
    with pytest.raises(ConnectionError):
        robot.send_action({"a.pos": 1.0})
    assert robot.last_sent == {}


def test_a_robot_that_moves_by_velocity_is_halted():
    driver = Driver()
    robot = GuardedRobot(driver, GuardConfig())
    robot.halt()
    assert driver.received == [], "nothing was in force"
    robot.send_action({"a.pos": 1.0, "c.vel": 0.4, "d.vel": 0.0})
    robot.halt()
    robot.halt()
    assert driver.received[1:] == [{"a.pos": 1.0, "c.vel": 0.0, "d.vel": 0.0}]


def test_a_command_without_velocities_stops_them():
    """As LeRobot's way to the initial pose sends it."""
    driver = Driver()
    robot = GuardedRobot(driver, GuardConfig(mode="refuse", limits={"a.pos": (-1.0, 1.0)}))
    robot.send_action({"a.pos": 0.1, "c.vel": 0.4})
    robot.send_action({"a.pos": 0.2})
    assert driver.received[-1] == {"a.pos": 0.2, "c.vel": 0.0, "d.vel": 0.0}
    robot.send_action({"a.pos": math.nan, "c.vel": 0.4})
    assert driver.received[-1] == {"a.pos": 0.2, "c.vel": 0.0, "d.vel": 0.0}


@pytest.fixture
def simulated(tmp_path) -> LeFleetSim:
    config = LeFleetSimConfig(calibration_dir=tmp_path, time="stepped", horizon=500)
    return LeFleetSim(config)


def test_everything_else_is_the_wrapped_robots(simulated):
    robot = GuardedRobot(simulated, GuardConfig())
    robot.connect()
    wrapper = ThreadSafeRobot(robot)
    assert isinstance(robot, Robot)
    assert wrapper.inner.inner is simulated
    assert (wrapper.name, wrapper.robot_type) == (simulated.name, simulated.robot_type)
    assert wrapper.observation_features == simulated.observation_features
    assert wrapper.action_features == simulated.action_features
    assert wrapper.cameras == {}
    assert wrapper.is_connected
    assert robot.vectors == simulated.vectors
    assert robot.config is simulated.config
    assert str(robot) == str(simulated)
    wrapper.send_action(STILL)
    assert robot.extras.steps == 1
    robot.new_episode()
    assert robot.extras.episode == 1
    assert not hasattr(GuardedRobot(Driver(), GuardConfig()), "vectors")
    del robot, wrapper
    assert simulated.is_connected, "a discarded guard disconnected the robot"
    simulated.disconnect()


def test_a_refused_velocity_stops_a_simulated_arm(simulated):
    seen = []
    simulated.on_command = lambda action, clock: seen.append(action)
    robot = GuardedRobot(simulated, GuardConfig("refuse", {"hand_x.vel": (-0.5, 0.5)}))
    robot.connect()
    robot.send_action(STILL | {"hand_y.vel": math.nan})
    assert seen == [], "nothing was sent before and the gripper's command is unknown"
    robot.send_action(STILL | {"hand_x.vel": 0.4, "gripper_close.pos": 0.3})
    robot.send_action(STILL | {"hand_x.vel": 0.9, "gripper_close.pos": 0.9})
    assert seen[-1] == STILL | {"gripper_close.pos": 0.3}


def test_homing_passes_the_guard(simulated):
    seen = []
    simulated.on_command = lambda action, clock: seen.append(action)
    config = GuardConfig(limits={"hand_x.pos": (0.4, 3.0)}, max_step=0.01)
    robot = GuardedRobot(simulated, config)
    robot.connect()
    initial = {k: v for k, v in robot.get_observation().items() if k.endswith(".pos")}
    for _ in range(60):
        robot.send_action(STILL | {"hand_x.vel": 0.5})
    before = robot.get_observation()
    seen.clear()
    hardware = HardwareContext(ThreadSafeRobot(robot), teleop=None, initial_position=initial)
    RolloutStrategy._return_to_initial_position(hardware, duration_s=0.3, fps=500)
    x = [before["hand_x.pos"], *(command["hand_x.pos"] for command in seen)]
    assert len(x) == 151
    assert max(abs(now - last) for last, now in pairwise(x)) <= 0.01 + 1e-9
    assert min(x) >= 0.4
    assert robot.get_observation()["hand_x.pos"] < x[0] - 1
    assert tuple(robot.last_sent) == STATE_NAMES


def test_a_new_scene_begins_without_commands(simulated):
    """A gripper that was closed in the last episode must not be closed before the first chunk."""
    robot = GuardedRobot(simulated, GuardConfig())
    robot.connect()
    robot.send_action(dict.fromkeys(robot.action_features, 1.0))
    robot.new_episode()
    assert robot.last_sent == {}
    assert robot.extras.episode == 1
    robot.disconnect()
