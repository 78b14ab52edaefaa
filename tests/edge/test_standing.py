"""Joints that move by velocity stand still whenever the policy does not drive."""

from types import MappingProxyType, SimpleNamespace

import pytest
from lerobot.robots import Robot
from lerobot.rollout.configs import DAggerStrategyConfig
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.rollout.strategies.dagger import DAggerPhase

from lefleet.edge.episodes import EpisodeEngine, EpisodeLabels, StandingDAgger
from lefleet.edge.features import features_of, positions_in
from lefleet.edge.guard import GuardedRobot
from lefleet.edge.judge import GuardConfig

MOVING = {"arm.pos": 0.5, "x.vel": 0.3}
STANDING = {"arm.pos": 0.5, "x.vel": 0.0}


class Base(Robot):
    """A mobile base with an arm; its driver needs all joints, as LeKiwi's does."""

    config_class, name, robot_type = None, "base", "base"
    is_connected = is_calibrated = True
    observation_features = MappingProxyType(
        {"arm.pos": float, "x.vel": float, "depth": (48, 64, 1), "top": (48, 64, 3)}
    )
    action_features = MappingProxyType({"arm.pos": float, "x.vel": float})
    extras = None

    def __init__(self) -> None:
        self.received: list[dict[str, float]] = []

    def get_observation(self):
        return {"arm.pos": 0.0, "x.vel": 0.0}

    def send_action(self, action):
        self.received.append({name: action[name] for name in self.action_features})
        return action

    def connect(self, calibrate=True): ...
    def disconnect(self): ...
    def calibrate(self): ...
    def configure(self): ...


class Idle(InferenceEngine):
    """An engine that only has to be told."""

    def start(self): ...
    def stop(self): ...
    def reset(self): ...
    def get_action(self, obs_frame): ...


@pytest.fixture
def base():
    return Base()


@pytest.fixture
def guarded(base):
    robot = GuardedRobot(base, GuardConfig())
    robot.send_action(MOVING)
    return robot


@pytest.mark.parametrize("what", ["pause", "reset", "stop"])
def test_an_engine_that_stops_driving_stops_the_robot_first(base, guarded, what):
    getattr(EpisodeEngine(Idle(), guarded, on_reset=lambda: None), what)()
    assert base.received == [MOVING, STANDING]


def test_a_driver_that_fails_then_does_not_keep_the_engine_running(base, guarded, caplog):
    stopped = []
    engine = Idle()
    engine.stop = lambda: stopped.append(True)
    base.received = None
    EpisodeEngine(engine, guarded, on_reset=lambda: None).stop()
    assert stopped == [True]
    assert "could not be told to stop" in caplog.text


def test_an_episode_that_ends_stops_the_robot(base, guarded):
    EpisodeLabels(guarded, None, is_episodic=True).end()
    assert base.received == [MOVING, STANDING]


def test_a_paused_dagger_sends_no_velocity_again(base, guarded):
    """LeRobot sends its last action at every paused tick."""
    strategy = StandingDAgger(DAggerStrategyConfig(num_episodes=1, smooth_handover=False))
    hardware = SimpleNamespace(robot_wrapper=ThreadSafeRobot(guarded), teleop=SimpleNamespace())
    last_action = dict(MOVING)
    engine = EpisodeEngine(Idle(), guarded, on_reset=lambda: None)
    strategy._apply_transition(
        DAggerPhase.AUTONOMOUS,
        DAggerPhase.PAUSED,
        engine,
        None,
        SimpleNamespace(hardware=hardware),
        last_action,
    )
    assert last_action == STANDING
    assert base.received == [MOVING, STANDING]


def test_a_joint_that_is_not_observed_keeps_its_last_command():
    names = ("gripper_close.pos", "arm.pos", "x.vel")
    found = positions_in(names, {"gripper_close.pos": 0.7, "arm.pos": 9.0}, {"arm.pos": 0.25})
    assert found[:2].tolist() == pytest.approx([0.7, 0.25])
    assert found[2] != found[2], "neither observed nor sent"


def test_depth_images_are_not_announced(base):
    features = features_of(base, "base", 30.0, {})
    assert list(features.cameras) == ["observation.images.top"]


def test_a_correction_of_a_scene_that_is_over_is_warned_of(base, guarded, caplog):
    base.extras = SimpleNamespace(finished=True)
    strategy = StandingDAgger(DAggerStrategyConfig(num_episodes=1, smooth_handover=False))
    hardware = SimpleNamespace(
        robot_wrapper=ThreadSafeRobot(guarded), teleop=SimpleNamespace(feedback_features={})
    )
    strategy._apply_transition(
        DAggerPhase.PAUSED,
        DAggerPhase.CORRECTING,
        None,
        None,
        SimpleNamespace(hardware=hardware),
        dict(STANDING),
    )
    assert "nothing moves until the policy resumes" in caplog.text
