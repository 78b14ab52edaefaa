"""The environment that LeRobot's own programs step."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lefleet.errors import BadInput
from lefleet.sim import plugin
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, STATE_NAMES
from lefleet.sim.plugin import LeFleetMetaWorld, MetaWorldEnv
from lefleet.sim.render import NoGraphics, graphics_problem
from lefleet.sim.world import World


def test_the_env_shows_what_the_world_does():
    env, world = MetaWorldEnv("push"), World("push")
    observation, info = env.reset(seed=7)
    raw = world.reset(7)
    assert info == {"is_success": False, "progress": 0.0}
    assert env.observation_space.contains(observation)
    step = env.step(np.ones(4, np.float32))
    outcome = world.step(np.ones(4))
    assert not np.array_equal(raw, outcome.raw)
    assert step[1] == outcome.reward
    assert step[4]["progress"] == outcome.progress


def test_an_episode_is_cut_off_at_its_length():
    env = MetaWorldEnv("push", episode_length=3)
    env.reset(seed=0)
    ends = [env.step(np.zeros(4, np.float32))[3] for _ in range(3)]
    assert ends == [False, False, True]


def test_frames_are_rgb_and_show_something():
    env = MetaWorldEnv("door-open")
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (224, 224, 3)
    assert frame.dtype == np.uint8
    assert frame.std() > 10
    red_arm = (frame[..., 0] > 120) & (frame[..., 2] < 60)
    assert red_arm.mean() > 0.02, "the red arm is not red: channels are swapped"


NO_GRAPHICS = """
from lefleet.sim.render import NoGraphics, Renderer, graphics_problem
from lefleet.sim.world import World
try:
    Renderer(World("push").sim, 8)
except NoGraphics as error:
    print(error)
assert graphics_problem()
"""


def test_without_graphics_frames_are_black_and_the_message_says_what_to_install(
    monkeypatch,
):
    """MuJoCo chooses its library once, so that another process has none."""
    argv, environment = [sys.executable, "-c", NO_GRAPHICS], os.environ | {"MUJOCO_GL": "disable"}
    child = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert "apt-get install libegl1" in child.stdout

    def no_graphics(*_):
        raise NoGraphics(child.stdout)

    monkeypatch.setattr(plugin, "Renderer", no_graphics)
    env = MetaWorldEnv("push")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="apt-get install libegl1"):
        assert env.render().max() == 0


def test_lerobot_gets_one_group_per_task():
    envs = LeFleetMetaWorld(task="easy3").create_envs(n_envs=2)
    assert list(envs) == ["push", "pick-place", "door-open"]
    assert envs["push"][0].num_envs == 2
    assert envs["push"][0].call("task_description") == ("push the puck to the goal",) * 2


@pytest.mark.parametrize("use_async", [False, True])
def test_vector_seeds_reach_every_env(use_async):
    vector = LeFleetMetaWorld(task="push").create_envs(2, use_async_envs=use_async)["push"][0]
    first, _ = vector.reset(seed=[1, 2])
    again, _ = vector.reset(seed=[2, 1])
    vector.close()
    states = first["environment_state"], again["environment_state"]
    assert not np.array_equal(states[0][0], states[0][1])
    assert np.array_equal(states[0], states[1][::-1])


@pytest.mark.skipif(bool(graphics_problem()), reason="no images can be rendered here")
def test_cameras_are_pixels_that_lerobot_knows_how_to_name():
    config = LeFleetMetaWorld(task="push", cameras=["gripper"], image_size=16)
    assert config.features_map["pixels/gripper"] == "observation.images.gripper"
    assert config.features["pixels/gripper"].shape == (16, 16, 3)
    vector = config.create_envs(2)["push"][0]
    seen, _ = vector.reset(seed=[1, 2])
    vector.close()
    images = seen["pixels"]["gripper"]
    assert (images.shape, images.dtype) == ((2, 16, 16, 3), np.uint8)
    assert not np.array_equal(images[0], images[1])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"cameras": ["wrist"]}, "there is no 'wrist'"), ({"image_size": 4}, "image_size: 4 is not")],
)
def test_what_cannot_be_rendered_is_refused(fields, problem):
    with pytest.raises(BadInput, match=problem):
        LeFleetMetaWorld(task="push", **fields).create_envs(1)


def test_columns_have_names_that_lerobots_rollout_takes_as_meant():
    assert all(name.endswith((".pos", ".vel")) for name in (*STATE_NAMES, *ACTION_NAMES))
    assert not any(name.endswith((".pos", ".vel")) for name in ENVIRONMENT_NAMES)
    assert not set(STATE_NAMES) & set(ACTION_NAMES), "homing would send a state as an action"
