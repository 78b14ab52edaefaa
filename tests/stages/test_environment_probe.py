"""Whether LeRobot can make an environment on this machine."""

import pytest

from lefleet.stages.environment_probe import examine

OURS = {"discover_packages_path": "lefleet.sim", "type": "lefleet_metaworld"}


def test_an_environment_that_can_be_made_is_described():
    found = examine({**OURS, "task": "push"})
    assert found.problem == ""
    assert found.description.action == 4
    assert found.description.observations["observation.state"] == (4,)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"type": "pussht"}, "env.type: no environment is called 'pussht'"),
        ({**OURS, "tusk": "push"}, "env.tusk: lefleet_metaworld has no such flag"),
        ({**OURS, "discover_packages_path": "no.such"}, "env.discover_packages_path: no.such"),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(flags, problem):
    found = examine(flags)
    assert problem in found.problem
    assert (found.description, bool(found.remedy)) == (None, True)


def test_an_environment_that_may_move_a_real_robot_is_not_made():
    found = examine({"type": "gym_manipulator"})
    assert (found.problem, found.description) == ("", None)
