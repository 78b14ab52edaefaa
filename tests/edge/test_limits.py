"""What the constitution says of a rollout: whether it may begin, and how far its motors may go."""

import logging
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators

import lefleet.robots  # noqa: F401 - registers the simulated ones
from lefleet.constitution import Grants, installed
from lefleet.edge.flags import parse_flags
from lefleet.edge.guard import GuardedRobot
from lefleet.edge.judge import GuardConfig, check_guard, judge
from lefleet.edge.limits import facts_of, require_allowed, tightened, type_names
from lefleet.edge.rollout import run_rollout
from lefleet.errors import BadInput, Denied
from lefleet.robots import LeFleetSim, LeFleetSimConfig
from tests.constitution.cases import rules
from tests.edge.cell import recording
from tests.edge.test_flags import SIM
from tests.edge.test_guard import JOINTS, Driver, limits, steps

REAL = ("--robot.type=so101_follower", "--robot.port=/dev/none", *SIM[1:])


def tight(guard: GuardConfig, robot_type: str = "driver", **motors) -> GuardConfig:
    return tightened(guard, rules(motors=motors), (robot_type,), JOINTS)


def test_without_limits_in_the_constitution_the_guard_stays_as_it_is():
    guard = GuardConfig(limits={"a.pos": (-1.0, 1.0)}, max_step=0.5)
    assert tight(guard) == guard


def test_the_tighter_of_both_counts_on_each_side():
    guard = GuardConfig("refuse", {"a.pos": (-1.0, 9.0), "b.pos": (0.0, 1.0)}, {"a.pos": 0.5})
    made = tight(
        guard,
        limits={"a.pos": [-5, 2], "c.vel": [-1, 1]},
        max_step={"a.pos": 0.1, "d.vel": 3},
    )
    assert made.mode == "refuse"
    assert made.limits == {"a.pos": (-1.0, 2.0), "b.pos": (0.0, 1.0), "c.vel": (-1.0, 1.0)}
    assert made.max_step == {"a.pos": 0.1, "d.vel": 3.0}


@pytest.mark.parametrize(
    ("own", "rule", "made"),
    [
        ({}, 2.0, {"a.pos": 2.0, "b.pos": 2.0}),
        (1.0, 2.0, 1.0),
        (3.0, 2.0, {"a.pos": 2.0, "b.pos": 2.0}),
        (1.0, {"c.vel": 5.0}, {"a.pos": 1.0, "b.pos": 1.0, "c.vel": 5.0}),
        ({"a.pos": 9.0}, 2.0, {"a.pos": 2.0, "b.pos": 2.0}),
    ],
)
def test_one_step_for_all_positions_meets_steps_by_joint(own, rule, made):
    assert tight(GuardConfig(max_step=own), max_step=rule).max_step == made


def test_limits_for_a_type_of_robot_count_in_addition():
    motors = {
        "limits": {"a.pos": [-5, 5]},
        "robots": {
            "driver": {"limits": {"a.pos": [-1, 9]}},
            "other": {"limits": {"b.pos": [0, 0]}},
        },
    }
    assert tight(GuardConfig(), **motors).limits == {"a.pos": (-1.0, 5.0)}
    assert tight(GuardConfig(), "third", **motors).limits == {"a.pos": (-5.0, 5.0)}


@pytest.mark.parametrize(
    ("robot_type", "level"), [("driver", logging.WARNING), ("lefleet_sim", logging.INFO)]
)
def test_a_limit_for_all_robots_is_skipped_where_a_robot_lacks_the_joint(caplog, robot_type, level):
    with caplog.at_level(logging.INFO):
        made = tight(GuardConfig(), robot_type, limits={"a.pos": [-1, 1], "wheel?.vel": [0, 0]})
    assert made.limits == {"a.pos": (-1.0, 1.0)}
    [record] = caplog.records
    assert record.levelno == level
    assert "has not: wheel?.vel. It has: a.pos, b.pos, c.vel, d.vel." in record.message


def test_patterns_stand_for_all_joints_and_types_that_they_match():
    motors = {
        "limits": {"*.pos": [-5, 5], "a.*": [-9, 2]},
        "max_step": {"*.vel": 3, "d.vel": 1},
        "robots": {
            "dri*": {"limits": {"?.pos": [-1, 9]}, "max_step": {"a.pos": 0.5}},
            "driver": {"max_step": {"a.pos": 0.1}},
            "d?": {"limits": {"c.vel": [0, 0]}},
        },
    }
    made = tight(GuardConfig(limits={"b.pos": (-7.0, 3.0)}), **motors)
    assert made.limits == {"a.pos": (-1.0, 2.0), "b.pos": (-1.0, 3.0)}
    assert made.max_step == {"a.pos": 0.1, "c.vel": 3.0, "d.vel": 1.0}
    with pytest.raises(Denied, match=r"motors\.robots\.dri\*.*no joint 'x\*\.pos'"):
        tight(GuardConfig(), robots={"dri*": {"limits": {"x*.pos": [-1, 1]}}})


def test_limits_for_a_type_of_robot_that_does_not_exist_are_denied():
    limit = {"limits": {"gripper_close.pos": [0, 1]}}
    cfg = parse_flags(SIM)
    with (
        installed(rules(motors={"robots": {"so101_folower": limit}})),
        pytest.raises(Denied, match=r"robots\.so101_folower: .*Write one of so101_follower"),
    ):
        require_allowed(cfg)
    for known in ("lefleet_sim", "so101_follower", "my_robot*"):
        with installed(rules(motors={"robots": {known: limit}})):
            require_allowed(cfg)


def test_a_robot_that_is_given_is_judged_by_its_own_type():
    """Whatever the config beside it says."""
    real = Driver()
    real.config = parse_flags(REAL).robot
    cfg = parse_flags(SIM)
    with pytest.raises(Denied, match=r"real_hardware: robot type .*so101_follower"):
        run_rollout(cfg, None, real)

    class Unregistered(LeFleetSimConfig):
        pass

    with pytest.raises(Denied, match="real_hardware: robot type Unregistered"):
        run_rollout(cfg, None, LeFleetSim(Unregistered()))
    misspelt = {"robots": {"so101_follower": {"limits": {"gripper.poss": [0, 1]}}}}
    with (
        installed(rules(real_hardware=True, motors=misspelt)),
        pytest.raises(Denied, match=r"no joint 'gripper\.poss'"),
    ):
        run_rollout(cfg, None, real)


@pytest.mark.parametrize("motors", [{"limits": {"a.poss": [-1, 1]}}, {"max_step": {"a.poss": 1}}])
def test_a_limit_for_its_type_that_names_no_joint_of_the_robot_is_denied(motors):
    """A misspelt name would leave the motor without its limit."""
    with pytest.raises(Denied, match=r"motors\.robots\.driver.*no joint 'a\.poss'.*'a\.pos'"):
        tight(GuardConfig(), robots={"driver": motors})


def test_a_guard_that_lies_outside_of_the_constitution_is_refused():
    guard = GuardConfig(limits={"a.pos": (5.0, 6.0)})
    with pytest.raises(BadInput, match=r"a\.pos \[5.0, 6.0\] is outside of what the constitution"):
        tight(guard, limits={"a.pos": [-1, 1]})


numbers = st.floats() | st.floats(-3, 3)
actions = st.lists(st.dictionaries(st.sampled_from(JOINTS), numbers), max_size=8)


@settings(max_examples=300, deadline=None)
@given(
    own=st.builds(GuardConfig, st.sampled_from(["clamp", "refuse"]), limits, steps),
    general=limits,
    special=limits,
    step=steps,
    commands=actions,
)
def test_no_command_ever_leaves_the_limits_of_the_constitution(
    own, general, special, step, commands
):
    """Whatever the guard's own flags say. All limits here contain 0, where the driver stands."""
    motors = {
        "limits": general,
        "max_step": step,
        "robots": {"driver": {"limits": special}},
    }
    made = tight(own, **motors)
    check_guard(made, JOINTS)
    driver = Driver()
    robot = GuardedRobot(driver, made)
    for command in commands:
        robot.send_action(command)
    before: dict[str, float] = {}
    for sent in driver.received:
        for joint, value in sent.items():
            for bounds in (general.get(joint), special.get(joint)):
                assert bounds is None or bounds[0] <= value <= bounds[1]
            largest = step.get(joint, math.inf) if isinstance(step, dict) else step
            if isinstance(step, dict) or joint.endswith(".pos"):
                step_made = abs(value - before.get(joint, 0.0))
                is_stop = joint.endswith(".vel") and value == 0.0
                assert is_stop or step_made <= largest * (1 + 1e-9)
        before = sent


@settings(max_examples=200, deadline=None)
@given(own=st.builds(GuardConfig, st.just("clamp"), limits, steps), value=st.floats(-9, 9))
def test_flags_of_the_guard_never_allow_what_the_constitution_alone_does_not(own, value):
    motors = {"limits": {"a.pos": [-1, 1], "c.vel": [-0.5, 0.5]}}
    action = {"a.pos": value, "c.vel": value}
    sent = judge(action, tight(own, **motors), {}, {"a.pos": 0.0}).send
    assert -1 <= sent["a.pos"] <= 1
    assert -0.5 <= sent["c.vel"] <= 0.5


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (REAL, "real_hardware"),
        ((*SIM, "--teleop.type=so101_leader", "--teleop.port=/dev/none"), "real_hardware"),
        ((*SIM, "--task=Attack the box."), "tasks.forbidden_words"),
    ],
)
def test_a_rollout_is_denied_before_anything_is_connected(flags, rule):
    """There is no server and no such device: whoever looked for one would say so."""
    with pytest.raises(Denied) as raised:
        run_rollout(parse_flags(flags), None)
    assert raised.value.rule == rule


def test_a_config_file_cannot_hide_a_robot(tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text("robot: {type: so101_follower, port: /dev/none}\ninference: {type: remote}\n")
    with pytest.raises(Denied, match=r"real_hardware: robot type .*so101_follower"):
        run_rollout(parse_flags([f"--config_path={file}"]), None)


def test_a_real_robot_may_move_where_the_constitution_says_so():
    with installed(rules(real_hardware=True)):
        require_allowed(parse_flags(REAL))
    with (
        installed(rules(real_hardware=True, robots={"allowed": ["koch_*"]})),
        pytest.raises(Denied, match=r"robots\.allowed"),
    ):
        require_allowed(parse_flags(REAL))


def test_facts_are_those_of_the_parsed_flags(tmp_path):
    flags = (*SIM, "--strategy.type=sentry", *recording(tmp_path), "--dataset.push_to_hub=true")
    facts = facts_of(parse_flags(flags))
    assert facts.robot == ("lefleet_sim",)
    assert facts.datasets == ("local/rollout_test", str(tmp_path))
    assert facts.tasks == ("Push the puck.",)
    assert facts.uploads


def test_limits_for_a_type_count_under_either_of_its_names():
    """LeRobot's config of a so101_follower calls itself so100_follower."""
    names = type_names(parse_flags(REAL).robot)
    assert set(names) == {"so100_follower", "so101_follower"}
    for name in names:
        own = rules(motors={"robots": {name: {"limits": {"a.pos": [-1, 1]}}}})
        assert tightened(GuardConfig(), own, names, JOINTS).limits == {"a.pos": (-1.0, 1.0)}


def test_a_rollout_of_a_program_with_rules_keeps_to_those(tmp_path):
    cfg = parse_flags((*SIM, "--strategy.type=sentry", *recording(tmp_path)))
    with installed(rules(Grants(datasets=("local/rollout_test", str(tmp_path))))):
        require_allowed(cfg)
    with (
        installed(rules()),
        pytest.raises(Denied, match="datasets: the dataset local/rollout_test"),
    ):
        require_allowed(cfg)
