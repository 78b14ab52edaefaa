"""Flags to environments of LeRobot: what they offer, and what is wrong with them."""

import sys
from importlib.util import find_spec

import pytest
import torch

from lefleet.errors import BadInput
from lefleet.rollouts.environments import describe_environment, make_environment
from tests.rollouts.test_gym_world import LISTED


def test_an_environment_is_described_as_policies_see_it():
    found = describe_environment({"type": "pusht"})
    assert (found.type, found.fps, found.action) == ("pusht", 10, 2)
    # LeRobot's own config says 384 pixels, and its environment has 96.
    assert found.observations == {
        "observation.image": (3, 96, 96),
        "observation.state": (2,),
    }
    assert (found.tasks, found.steps) == ({"pusht-0": ""}, {"pusht-0": 300})


def test_groups_and_numbers_of_tasks_are_their_names():
    found = describe_environment(LISTED)
    assert found.tasks == {"do-0": "do number 0", "do-1": "do number 1"}
    assert found.steps == {"do-0": 3, "do-1": 4}
    assert found.initial_states == 6
    assert describe_environment({**LISTED, "is_listed": "false"}).initial_states == 0


def test_our_own_simulation_is_one_of_them():
    flags = {"discover_packages_path": "lefleet.sim", "type": "lefleet_metaworld"}
    found = describe_environment({**flags, "task": "push,reach", "episode_length": "7"})
    assert found.tasks == {
        "push-0": "push the puck to the goal",
        "reach-0": "move the hand to the goal",
    }
    assert found.steps == {"push-0": 7, "reach-0": 7}


@pytest.mark.parametrize(
    ("flags", "problem", "remedy"),
    [
        ({}, "env.type: it is missing", "pusht"),
        ({"type": "pushed"}, "env.type: no environment is called 'pushed'", "mean pusht"),
        ({"type": "my_env"}, "env.type: no environment is called 'my_env'", "discover_packages"),
        ({**LISTED, "type": "other"}, "called 'other'", "tests.rollouts.envs does not register"),
        ({"type": "pusht", "obs_typ": "x"}, "env.obs_typ: pusht has no such flag", "obs_type"),
        ({"type": "pusht", "fps": "fast"}, "env: the flags of pusht are wrong: .*fast", ""),
        ({"type": "pusht", "obs_type": "state"}, "pusht observes a bare array", "obs_type"),
        ({"type": "pusht", "obs_type": "x"}, "env: pusht cannot be made .*Unknown obs_type", ""),
        ({"type": "pusht", "discover_packages_path": "nowhere"}, "nowhere cannot be", "PYTHONPATH"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(flags, problem, remedy):
    with pytest.raises(BadInput, match=problem) as caught:
        describe_environment(flags)
    assert remedy in caught.value.remedy


def test_a_package_that_is_missing_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym_aloha", None)
    with pytest.raises(BadInput, match=r"env\.type: aloha needs the package gym_aloha") as caught:
        describe_environment({"type": "aloha"})
    assert "Install the package that it comes in" in caught.value.remedy


def test_lists_and_numbers_are_read_as_lerobot_reads_them():
    config = make_environment({"type": "libero", "task_ids": "[0, 3]", "fps": "10"}).config
    assert (config.task_ids, config.fps) == ([0, 3], 10)


def test_libero_without_its_package_is_refused_with_its_name():
    """The config, flags and processors exist without it; the scenes do not."""
    assert find_spec("libero") is None, "remove this test where it is installed"
    with pytest.raises(BadInput, match=r"env\.type: libero needs the package libero"):
        describe_environment({"type": "libero", "task": "libero_10"})


def test_observations_of_libero_go_through_lerobot_s_own_processor():
    """Its scenes need files of the hub; what stands between them and a policy does not."""
    observed, _ = make_environment({"type": "libero", "task": "libero_10"}).processors(None)
    camera = torch.zeros(1, 3, 4, 4)
    camera[..., 0, 0] = 1.0
    robot = {
        "eef": {"pos": torch.ones(1, 3), "quat": torch.tensor([[0.0, 0.0, 0.0, 1.0]])},
        "gripper": {"qpos": torch.full((1, 2), 2.0)},
    }
    seen = observed(
        {"observation.images.image": camera, "observation.robot_state": robot, "task": ["a"]}
    )
    assert seen["observation.state"].tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 2.0, 2.0]]
    assert seen["observation.images.image"][0, 0, 3, 3] == 1.0, "LIBERO's cameras hang upside down"
