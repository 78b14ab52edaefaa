"""What counts as real hardware, and who may move it: environments, trainings, rollouts."""

import msgspec
import pytest

from lefleet.constitution import (
    RolloutFacts,
    rules_for,
)
from lefleet.records import (
    EvaluatePlan,
    EvaluateRequest,
    Rung,
)
from tests.constitution.cases import config, rules, source
from tests.constitution.test_rules import denied

HARDWARE_ENVS = [
    {"type": "gym_manipulator"},
    {"type": "gym_manipulator", "robot.type": "so101_follower"},
    {"type": "mine", "robot.type": "so101_follower"},
    {"type": "mine", "robot.port": "/dev/ttyACM0"},
    {"type": "mine", "robot": "{type: so101_follower}"},
    {"type": "mine", "teleop.type": "so101_leader"},
    {"type": "mine", "inner.robot.type": "so101_follower"},
]


@pytest.mark.parametrize("env", HARDWARE_ENVS, ids=str)
def test_an_environment_around_a_robot_counts_as_hardware(env, tmp_path):
    run = config(evaluate=EvaluatePlan(env=env))
    request = EvaluateRequest(checkpoint=str(tmp_path / "c"), env=env)
    own = rules_for(source(), run, tmp_path)
    assert own.uses_hardware(run)
    assert own.uses_hardware(request)
    denied(lambda: own.check_config(run), "real_hardware")
    denied(lambda: own.check_request(request), "real_hardware")


def test_flags_of_a_training_may_name_a_robot_too(tmp_path):
    run = config(ladder=(Rung(name="a", extra_args=("--env.type=gym_manipulator",)),))
    own = rules_for(source(), run, tmp_path)
    assert own.uses_hardware(run)
    denied(lambda: own.check_config(run), "real_hardware")


@pytest.mark.parametrize(
    "env",
    [{}, {"type": "pusht"}, {"type": "gym_manipulator", "robot.type": "lefleet_sim"}],
    ids=str,
)
def test_a_simulation_is_no_hardware(env, tmp_path):
    run = config(evaluate=EvaluatePlan(env=env))
    own = rules_for(source(), run, tmp_path)
    assert not own.uses_hardware(run)
    own.check_config(run)


def test_real_hardware_may_be_allowed_by_type(tmp_path):
    env = {"type": "gym_manipulator", "robot.type": "so101_follower"}
    run = config(evaluate=EvaluatePlan(env=env))
    rules_for(source(real_hardware=True), run, tmp_path).check_config(run)
    robots = {"simulated": [], "allowed": ["koch_*"]}
    other = rules_for(source(real_hardware=True, robots=robots), run, tmp_path)
    denied(lambda: other.check_config(run), "robots.allowed", "so101_follower", "koch_*")


ROLLOUT = RolloutFacts(
    robot=("lefleet_sim",),
    teleoperator=("keyboard",),
    checkpoint="me/weights",
    plugins=("my_robot",),
    config_paths=("/x.yaml",),
    datasets=("me/data",),
    tasks=("Push.",),
    uploads=True,
)


def test_a_rollout_in_simulation_that_a_person_typed_is_allowed():
    rules(ROLLOUT.grants()).check_rollout(ROLLOUT)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"robot": ("so101_follower",)}, "real_hardware"),
        ({"teleoperator": ("so101_leader",)}, "real_hardware"),
        ({"tasks": ("Kill it.",)}, "tasks.forbidden_words"),
    ],
)
def test_what_a_person_types_does_not_lift_hardware_and_words(change, rule):
    facts = msgspec.structs.replace(ROLLOUT, **change)
    error = denied(lambda: rules(facts.grants()).check_rollout(facts), rule)
    assert "test.yaml" in error.remedy


@pytest.mark.parametrize(
    ("kept", "rule"),
    [
        ({"plugins": ("my_robot",)}, "plugins"),
        ({"config_paths": ("/x.yaml",)}, "config_paths"),
        ({"checkpoint": "me/weights"}, "checkpoints"),
        ({"datasets": ("me/data",)}, "datasets"),
        ({"uploads": True}, "uploads"),
    ],
)
def test_without_own_config_a_rollout_needs_everything_listed(kept, rule):
    facts = RolloutFacts(robot=("lefleet_sim",), **kept)
    denied(lambda: rules(facts.grants(), own_config=False).check_rollout(facts), rule)


@pytest.mark.parametrize("named", ["so100_follower", "so101_follower"])
def test_a_type_with_two_names_may_be_allowed_under_either_and_is_simulated_under_both(named):
    facts = RolloutFacts(robot=("so100_follower", "so101_follower"))
    rules(real_hardware=True, robots={"allowed": [named]}).check_rollout(facts)
    listed = rules(robots={"simulated": [named]})
    error = denied(lambda: listed.check_rollout(facts), "real_hardware")
    assert "so100_follower and so101_follower to robots.simulated" in error.remedy
    rules(robots={"simulated": ["so10?_follower"]}).check_rollout(facts)
    denied(
        lambda: rules().check_rollout(facts), "real_hardware", "so100_follower", "so101_follower"
    )


@pytest.mark.parametrize("name", ["keyboard", "gamepad", "phone", "lefleet_sim_expert"])
def test_a_robot_with_the_name_of_a_simulated_teleoperator_is_real(name, tmp_path):
    rules().check_rollout(RolloutFacts(robot=("lefleet_sim",), teleoperator=(name,)))
    denied(lambda: rules().check_rollout(RolloutFacts(robot=(name,))), "real_hardware", name)
    env = {"type": "mine", "robot.type": name}
    run = config(evaluate=EvaluatePlan(env=env))
    own = rules_for(source(), run, tmp_path)
    assert own.uses_hardware(run)
    denied(lambda: own.check_config(run), "real_hardware")
    operated = EvaluateRequest(checkpoint="/c", env={"type": "mine", "teleop.type": name})
    assert not own.uses_hardware(operated)


def test_a_teleoperator_with_the_name_of_a_simulated_robot_is_real():
    facts = RolloutFacts(robot=("lefleet_sim",), teleoperator=("lefleet_sim",))
    error = denied(lambda: rules().check_rollout(facts), "real_hardware")
    assert "robots.simulated_teleoperators" in error.remedy
