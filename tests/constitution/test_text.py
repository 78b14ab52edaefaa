"""Rules and their differences in words."""

import msgspec
import pytest

from lefleet.constitution import Grants, packaged
from lefleet.constitution.text import differences, explain
from tests.constitution.cases import constitution, rules

ROBOTS = msgspec.to_builtins(packaged().robots)


def words(**changes) -> dict[str, str]:
    return dict(explain(rules(**changes)))


def test_the_first_lines_say_what_a_person_wants_to_know():
    said = words()
    assert list(said)[:4] == ["source", "real_hardware", "own_config", "uploads"]
    assert said["source"] == "test.yaml"
    assert said["real_hardware"] == "nothing real may move"
    assert words(real_hardware=True)["real_hardware"] == "real robots may move"
    assert said["caps.steps"] == "at most 10000000"


def test_types_of_robots_are_listed_where_real_ones_may_move():
    assert "robots.allowed" not in words()
    assert words(real_hardware=True)["robots.allowed"] == "*"


def test_what_a_run_names_itself_is_told_apart():
    own = Grants(
        folders=("/runs",),
        datasets=("me/data",),
        flags=("--peft.r=8",),
        commands=(("notify-send", "LeFleet"),),
    )
    said = dict(explain(rules(own, datasets=["lab/*"])))
    assert said["datasets"] == "lab/*; named by the own config: me/data"
    assert said["own flags"] == "--peft.r=8"
    assert said["own commands"] == "notify-send LeFleet"
    assert "/runs" in said["own folders"]


def test_every_limit_is_told():
    said = words(
        commands={"x": {"arguments": {"a": {"min": 1, "max": 2}, "b": {"one_of": ["p", "q"]}}}},
        tasks={"max_length": 9, "allowed": ["push"], "forbidden_words": ["no"]},
        motors={
            "limits": {"a.pos": [-1, 1]},
            "max_step": 5,
            "robots": {"arm": {"max_step": {"b.pos": 2}}},
        },
    )
    assert said["commands.x"] == "b: one of p, q"
    assert said["tasks.max_length"] == "at most 9 characters"
    assert said["tasks.allowed"] == "only push"
    assert said["tasks.forbidden_words"] == "no"
    assert said["motors.limits.a.pos"] == "-1 to 1"
    assert said["motors.max_step.*.pos"] == "steps of at most 5"
    assert said["motors.robots.arm.max_step.b.pos"] == "steps of at most 2"


X = {"x": {"arguments": {"a": {"max": 5}}}}


@pytest.mark.parametrize(
    ("before", "after", "field", "says"),
    [
        ({}, {"real_hardware": True}, "real_hardware", "real robots may move"),
        ({}, {"uploads": True}, "uploads", "may be sent"),
        ({"own_config": False}, {}, "own_config", "is allowed too"),
        ({}, {"plugins": ["lefleet.sim", "evil"]}, "plugins", "evil is now allowed"),
        ({"datasets": []}, {"datasets": ["a/b"]}, "datasets", "dataset a/b is now allowed"),
        ({"commands": {}}, {"commands": {"sh": {}}}, "commands", "program sh is now allowed"),
        (
            {"commands": X},
            {"commands": {"x": {"arguments": {"a": {"max": 6}}}}},
            "commands.x.arguments.a",
            "at most 6, before at most 5",
        ),
        (
            {"commands": X},
            {"commands": {"x": {"arguments": {"a": {}}}}},
            "commands.x.arguments.a",
            "anything, before at most 5",
        ),
        (
            {"commands": X},
            {"commands": {"x": {"arguments": X["x"]["arguments"] | {"b": {}}}}},
            "commands.x.arguments",
            "argument b is now allowed",
        ),
        (
            {"commands": {"x": {}}},
            {"commands": {"x": {"positional": ["y"]}}},
            "commands.x.positional",
            "argument y is now allowed",
        ),
        (
            {},
            {"robots": {**ROBOTS, "simulated": [*ROBOTS["simulated"], "so101_follower"]}},
            "robots.simulated",
            "so101_follower is now allowed",
        ),
        (
            {"caps": {"steps": 5}},
            {"caps": {"steps": 6}},
            "caps.steps",
            "at most 6, before at most 5",
        ),
        ({"caps": {"steps": 5}}, {"caps": {}}, "caps.steps", "no limit, before at most 5"),
        (
            {"tasks": {"forbidden_words": ["gun"]}},
            {"tasks": {}},
            "tasks.forbidden_words",
            "word in tasks gun is now allowed",
        ),
        ({"tasks": {"allowed": ["a"]}}, {"tasks": {}}, "tasks.allowed", "all tasks"),
        (
            {"tasks": {"allowed": ["a"]}},
            {"tasks": {"allowed": ["a", "b"]}},
            "tasks.allowed",
            "task b is now allowed",
        ),
        ({"tasks": {"max_length": 5}}, {"tasks": {"max_length": 6}}, "tasks.max_length", "6"),
        (
            {"motors": {"limits": {"a.pos": [-1, 1]}}},
            {"motors": {"limits": {"a.pos": [-1, 2]}}},
            "motors.limits.a.pos",
            "-1 to 2, before -1 to 1",
        ),
        ({"motors": {"max_step": 2}}, {"motors": {}}, "motors.max_step.*.pos", "no limit any more"),
    ],
)
def test_a_difference_is_told_and_its_direction(before, after, field, says):
    (found,) = differences(rules(**before), rules(**after))
    assert found.field == field
    assert says in found.words
    assert found.is_looser
    (back,) = differences(rules(**after), rules(**before))
    assert back.field == field
    assert not back.is_looser


def test_limits_that_were_only_moved_allow_something_new_both_ways():
    one = rules(motors={"limits": {"a.pos": [-1, 1]}})
    other = rules(motors={"limits": {"a.pos": [0, 2]}})
    assert [found.is_looser for found in differences(one, other)] == [True]
    assert [found.is_looser for found in differences(other, one)] == [True]


def test_what_another_config_names_is_a_difference_too():
    before, after = rules(), rules(Grants(checkpoints=("me/weights",), flags=("--peft.r=8",)))
    found = [(one.field, one.is_looser) for one in differences(before, after)]
    assert found == [("checkpoints", True), ("own flags", True)]


def test_equal_rules_have_no_difference():
    assert differences(rules(), rules()) == []


def test_rules_with_another_digest_have_a_difference_that_can_be_told():
    """A person who approves a change must see it."""
    changes = [
        {"real_hardware": True},
        {"own_config": False},
        {"uploads": True},
        {"commands": {}},
        {"environments": ["x"]},
        {"robots": {**ROBOTS, "simulated": ["x"]}},
        {"robots": {**ROBOTS, "simulated_teleoperators": ["x"]}},
        {"robots": {**ROBOTS, "allowed": ["x"]}},
        {"datasets": ["x"]},
        {"checkpoints": ["x"]},
        {"config_paths": ["x"]},
        {"plugins": ["x"]},
        {"variables": ["x"]},
        {"caps": {}},
        {"tasks": {}},
        {"motors": {"limits": {"a.pos": [0, 1]}}},
    ]
    assert {next(iter(one)) for one in changes} == set(constitution().__struct_fields__) - {
        "version"
    }
    for change in changes:
        assert differences(rules(), rules(**change)), change
