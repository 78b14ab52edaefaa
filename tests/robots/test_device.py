"""The simulated robot in stepped and in wall-clock time."""

from dataclasses import dataclass

import numpy as np
import pytest
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from lefleet.errors import BadInput
from lefleet.robots import LeFleetSim, LeFleetSimConfig
from lefleet.rollouts.episode import Episode
from lefleet.rollouts.messages import Act, EpisodeBatch, PlannedEpisode
from lefleet.rollouts.metaworld import MetaWorld
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, STATE_NAMES, encode
from lefleet.sim.world import Expert, World

SEED = 100_000_007
FORWARD = {"hand_x.vel": 0.0, "hand_y.vel": 0.5, "hand_z.vel": 0.0, "gripper_close.pos": -1.0}
STILL = FORWARD | {"hand_y.vel": 0.0}


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, steps: float) -> None:
        self.now += steps / FPS


@pytest.fixture
def make(tmp_path):
    def connected(clock=None, **fields) -> LeFleetSim:
        config = LeFleetSimConfig(calibration_dir=tmp_path, seed=SEED, **fields)
        robot = LeFleetSim(config, clock=clock or Clock())
        robot.connect()
        return robot

    return connected


def vector(observation: dict, names: tuple[str, ...]) -> np.ndarray:
    return np.array([observation[name] for name in names], np.float32)


def as_action(values) -> dict[str, float]:
    return dict(zip(ACTION_NAMES, np.asarray(values).tolist(), strict=True))


def test_features_describe_the_observation_before_and_after_connecting(tmp_path):
    robot = LeFleetSim(LeFleetSimConfig(calibration_dir=tmp_path))
    features = robot.observation_features
    robot.connect()
    observation = robot.get_observation()
    assert features == robot.observation_features
    assert list(observation) == list(features) == [*STATE_NAMES, *ENVIRONMENT_NAMES]
    assert {type(value) for value in observation.values()} == {float}
    assert robot.action_features == dict.fromkeys(ACTION_NAMES, float)
    assert sum(robot.vectors.values(), ()) == tuple(features)
    assert robot.cameras == {}


@pytest.mark.parametrize("task", ["push", "door-open"])
def test_stepped_episodes_are_those_of_the_world_bit_for_bit(make, task):
    robot, world = make(task=task, time="stepped"), World(task)
    noise = np.random.default_rng(0)
    for seed in (SEED, SEED + 1):
        raw, expert = world.reset(seed), Expert(task)
        assert robot.extras == (seed - SEED, seed, 0, False, 0.0, False)
        succeeded = False
        for step in range(60):
            observation = robot.get_observation()
            state, environment = encode(raw, task)
            assert np.array_equal(vector(observation, STATE_NAMES), state)
            assert np.array_equal(vector(observation, ENVIRONMENT_NAMES), environment)
            action = (expert.act(raw) + noise.normal(0, 0.2, 4)).astype(np.float32)
            robot.send_action(as_action(action))
            outcome = world.step(action)
            raw, succeeded = outcome.raw, succeeded or outcome.success
            extras = robot.extras
            assert (extras.steps, extras.progress) == (step + 1, outcome.progress)
            assert extras.success == extras.finished == succeeded
        robot.new_episode()


def test_stepped_episodes_are_those_of_the_engine_until_success(make):
    robot = make(task="push", time="stepped")
    planned = PlannedEpisode(row=0, task="push", seed=SEED)
    batch = EpisodeBatch(size=1, episodes=(planned,), behaviour=Act())
    episode = Episode(planned, MetaWorld("push"), batch)
    world, expert = World("push"), Expert("push")
    raw = world.reset(SEED)
    while not episode.ended:
        action = expert.act(raw)
        raw = world.step(action).raw
        episode.step(action)
        robot.send_action(as_action(action))
        assert np.array_equal(
            vector(robot.get_observation(), STATE_NAMES), episode.observation["agent_pos"]
        )
    finished = episode.finish()
    assert finished.success
    assert robot.extras[2:] == (finished.length, True, finished.progress, True)


def test_success_remains_when_the_hand_leaves_the_goal_again(make):
    robot, world, expert = make(task="reach", time="stepped"), World("reach"), Expert("reach")
    raw = world.reset(SEED)
    while not robot.extras.success:
        action = expert.act(raw)
        robot.send_action(as_action(action))
        raw = world.step(action).raw
    assert robot.extras.steps < world.task.horizon - 30, "too late to leave"
    for _ in range(30):
        robot.send_action(as_action([0, -1, 0, 0]))
        outcome = world.step(np.array([0, -1, 0, 0]))
    assert not outcome.success
    assert robot.extras[3:] == (True, 1.0, True)


def test_in_stepped_time_only_actions_move_the_world(make):
    clock = Clock()
    robot = make(clock, time="stepped")
    robot.send_action(FORWARD)
    before = robot.get_observation()
    clock.advance(1000)
    assert robot.get_observation() == before
    assert robot.extras.steps == 1


@pytest.mark.parametrize("time", ["stepped", "wall"])
def test_after_the_horizon_the_scene_rests_until_a_new_episode(make, time):
    clock = Clock()
    robot = make(clock, time=time, horizon=5)
    for _ in range(12):
        robot.send_action(FORWARD)
        clock.advance(1)
    resting = robot.get_observation()
    assert robot.extras.steps == 5
    assert robot.extras.finished
    assert not robot.extras.success
    robot.send_action(FORWARD)
    clock.advance(1)
    assert robot.get_observation() == resting
    robot.new_episode()
    assert robot.extras == (1, SEED + 1, 0, False, 0.0, False)
    assert robot.get_observation() != resting


def test_metaworlds_own_limit_is_no_exception(make):
    clock = Clock()
    robot = make(clock, horizon=500)
    robot.send_action(STILL)
    clock.advance(10_000)
    robot.get_observation()
    assert robot.extras.steps == 500


def test_in_wall_time_the_last_command_stays_in_force(make):
    clock = Clock()
    robot, world = make(clock), World("push")
    clock.advance(1000)
    robot.get_observation()
    assert robot.extras.steps == 0, "time began before the first command"

    raw = world.reset(SEED)
    assert np.array_equal(vector(robot.get_observation(), STATE_NAMES), encode(raw, "push").state)
    robot.send_action(FORWARD)
    clock.advance(20.5)
    robot.send_action(STILL)
    clock.advance(10)
    observation = robot.get_observation()
    assert robot.extras.steps == 30
    for values in [list(FORWARD.values())] * 20 + [list(STILL.values())] * 10:
        raw = world.step(np.array(values)).raw
    assert np.array_equal(vector(observation, STATE_NAMES), encode(raw, "push").state)


def test_steps_in_wall_time_do_not_depend_on_how_often_the_program_calls(make):
    observations = []
    for calls in (1, 60):
        clock = Clock()
        robot = make(clock)
        robot.send_action(FORWARD)
        for _ in range(calls):
            clock.advance(60 / calls)
            observation = robot.get_observation()
        assert robot.extras.steps == 60
        observations.append(observation)
    assert observations[0] == observations[1]


def test_a_new_episode_forgets_the_command(make):
    clock = Clock()
    robot = make(clock)
    robot.send_action(FORWARD)
    robot.new_episode()
    clock.advance(10)
    robot.get_observation()
    assert robot.extras.steps == 0


def test_every_command_that_reached_the_driver_is_observable(make):
    clock, seen = Clock(), []
    robot = make(clock, time="stepped", horizon=1)
    robot.on_command = lambda action, clock: seen.append((action, clock))
    robot.send_action(FORWARD | {"hand_y.vel": 7})
    clock.advance(1)
    robot.send_action(STILL)
    with pytest.raises(BadInput):
        robot.send_action(STILL | {"hand_y.vel": float("nan")})
    assert seen == [(FORWARD | {"hand_y.vel": 1.0}, 1000.0), (STILL, 1000.0 + 1 / FPS)]


def test_cameras_are_rendered_by_name(make):
    robot = make(cameras=["corner", "gripper"], camera_width=64, camera_height=48, time="stepped")
    shape = (48, 64, 3)
    assert robot.cameras == {"corner": shape, "gripper": shape}
    first = robot.get_observation()
    for _ in range(20):
        robot.send_action(FORWARD)
    last = robot.get_observation()
    for name in robot.cameras:
        assert robot.observation_features[name] == first[name].shape == shape
        assert first[name].dtype == np.uint8
        assert (first[name] != last[name]).any()
    assert (first["corner"] != first["gripper"]).any()
    robot.disconnect()


def test_calls_before_connect_and_after_disconnect_raise_lerobots_error(make):
    robot = make()
    with pytest.raises(DeviceAlreadyConnectedError):
        robot.connect()
    robot.disconnect()
    assert not robot.is_connected
    calls = (
        robot.get_observation,
        lambda: robot.send_action(STILL),
        lambda: robot.extras,
        robot.new_episode,
        robot.disconnect,
    )
    for call in calls:
        with pytest.raises(DeviceNotConnectedError):
            call()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": "puhs"}, "task: .*'puhs'. Did you mean push"),
        ({"task": "easy3"}, "task: "),
        ({"cameras": ["front"]}, "cameras: there is no 'front'. Choose from: corner, gripper"),
        ({"cameras": ["top", "top"]}, "cameras: named twice"),
        ({"camera_width": 0}, "camera_width: must be at least"),
        ({"time": "real"}, "time: 'real' is neither"),
        ({"seed": -1}, "seed: "),
        ({"horizon": 501}, "horizon: must be 0 to 500"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(tmp_path, fields, message):
    with pytest.raises(BadInput, match=message):
        LeFleetSim(LeFleetSimConfig(calibration_dir=tmp_path, **fields))
