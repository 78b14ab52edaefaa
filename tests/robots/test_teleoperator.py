"""The scripted expert as a teleoperator: found by LeRobot, takes over, hands over, corrects."""

from dataclasses import dataclass
from threading import Event

import draccus
import numpy as np
import pytest
import torch
from lerobot.common.control_utils import follower_smooth_move_to, teleop_supports_feedback
from lerobot.configs.parser import load_plugin
from lerobot.datasets import LeRobotDataset
from lerobot.processor import make_default_processors
from lerobot.rollout.configs import DAggerStrategyConfig, DatasetRecordConfig, RolloutConfig
from lerobot.rollout.context import (
    DatasetContext,
    HardwareContext,
    PolicyContext,
    ProcessorContext,
    RolloutContext,
    RuntimeContext,
)
from lerobot.rollout.inference.base import InferenceEngine
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.rollout.strategies.dagger import DAggerPhase, DAggerStrategy
from lerobot.teleoperators import TeleoperatorConfig, make_teleoperator_from_config
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from lefleet.errors import BadInput
from lefleet.robots import (
    LeFleetSim,
    LeFleetSimConfig,
    LeFleetSimExpert,
    LeFleetSimExpertConfig,
)
from lefleet.sim.encode import ACTION_NAMES, STATE_NAMES
from lefleet.sim.world import RETREAT_STEPS, Expert, World
from lerobot_policy_lefleet import LefleetConfig

SEED = 100_000_003
GRAB = dict(zip(ACTION_NAMES, (0.3, 0.5, -0.8, 1.0), strict=True))
"""What a bad policy does: it goes down beside the object with a closed gripper."""
STOP = [0.0, 0.0, 0.0, -1.0]
RISE = [0.0, 0.0, 1.0, -1.0]


@pytest.fixture
def robot_with(tmp_path):
    robots = []

    def connected(robot_id: str | None = "arm", **fields) -> LeFleetSim:
        settings = {"task": "push", "time": "stepped", "horizon": 500} | fields
        config = LeFleetSimConfig(id=robot_id, calibration_dir=tmp_path, seed=SEED, **settings)
        robots.append(LeFleetSim(config))
        robots[-1].connect()
        return robots[-1]

    yield connected
    for robot in robots:
        if robot.is_connected:
            robot.disconnect()


@pytest.fixture
def expert_for(tmp_path):
    def connected(robot_id: str = "") -> LeFleetSimExpert:
        config = LeFleetSimExpertConfig(robot_id=robot_id, calibration_dir=tmp_path)
        expert = LeFleetSimExpert(config)
        expert.connect()
        return expert

    return connected


def drive(robot: LeFleetSim, expert: LeFleetSimExpert, steps: int = 500) -> list[list[float]]:
    """The expert's actions until the episode is finished, or for so many steps."""
    actions = []
    while not robot.extras.finished and len(actions) < steps:
        robot.get_observation()
        action = expert.get_action()
        robot.send_action(action)
        actions.append(list(action.values()))
    return actions


def script(task: str, seed: int, steps: int) -> list[list[float]]:
    """The plain script's actions from an episode's beginning."""
    world, expert, actions = World(task), Expert(task), []
    raw = world.reset(seed)
    for _ in range(steps):
        actions.append(expert.act(raw))
        raw = world.step(actions[-1]).raw
    return [action.tolist() for action in actions]


def test_lerobot_finds_it_and_reads_its_flags(tmp_path):
    @dataclass
    class Program:
        teleop: TeleoperatorConfig

    load_plugin("lefleet.robots")
    args = ["--teleop.type=lefleet_sim_expert", "--teleop.robot_id=arm"]
    args.append(f"--teleop.calibration_dir={tmp_path}")
    expert = make_teleoperator_from_config(draccus.parse(Program, args=args).teleop)
    assert type(expert) is LeFleetSimExpert
    assert expert.name == expert.config.type == "lefleet_sim_expert"
    assert expert.config.robot_id == "arm"
    assert expert.action_features == dict.fromkeys(ACTION_NAMES, float)
    assert not teleop_supports_feedback(expert)
    with pytest.raises(NotImplementedError):
        expert.send_feedback({})


@pytest.mark.parametrize("task", ["push", "pick-place", "door-open"])
def test_from_the_beginning_it_is_the_script_and_succeeds(robot_with, expert_for, task):
    robot, expert = robot_with(task=task), expert_for("arm")
    for seed in (SEED, SEED + 1):
        actions = drive(robot, expert)
        assert robot.extras.success
        assert actions == script(task, seed, len(actions))
        robot.new_episode()


def test_in_mid_episode_it_stops_rises_and_then_succeeds(robot_with, expert_for):
    """Where the plain script would not: it hovers above the object with a closed gripper."""
    robot, plain = robot_with(), Expert("push")
    for _ in range(40):
        robot.send_action(GRAB)
    while not robot.extras.finished:
        action = plain.act(robot.state.raw)
        robot.send_action(dict(zip(ACTION_NAMES, action.tolist(), strict=True)))
    assert not robot.extras.success

    robot.disconnect()
    robot, expert = robot_with(), expert_for()
    for _ in range(40):
        robot.send_action(GRAB)
    actions = drive(robot, expert)
    assert actions[: RETREAT_STEPS + 1] == [STOP, *[RISE] * RETREAT_STEPS]
    assert actions[RETREAT_STEPS + 1] != RISE
    assert robot.extras.success


def test_whoever_drives_in_between_makes_it_recover_again(robot_with, expert_for):
    robot, expert = robot_with(), expert_for()
    last = drive(robot, expert, steps=10)[-1]
    assert last != STOP
    robot.send_action(dict(zip(ACTION_NAMES, last, strict=True)))  # as LeRobot's pause does
    assert drive(robot, expert, steps=2) == [STOP, RISE]
    robot.new_episode()
    assert drive(robot, expert, steps=2) == script("push", SEED + 1, steps=2)


def test_asking_twice_for_one_state_is_no_takeover(robot_with, expert_for):
    robot, expert = robot_with(), expert_for()
    assert expert.get_action() == expert.get_action()
    robot.send_action(expert.get_action())
    assert list(expert.get_action().values()) != STOP


def test_lerobots_smooth_handover_brings_the_hand_to_a_stop(robot_with, expert_for):
    """It interpolates between the last command and the teleoperator's first action."""
    robot, expert = robot_with(), expert_for()
    for _ in range(10):
        robot.send_action(GRAB)
    sent = []
    robot.on_command = lambda action, _: sent.append(list(action.values()))
    follower_smooth_move_to(robot, GRAB, expert.get_action(), duration_s=0.1, fps=300)
    speeds = np.linalg.norm(np.array(sent)[:, :3], axis=1)
    assert speeds[0] == pytest.approx(np.linalg.norm([0.3, 0.5, 0.8]))
    assert (np.diff(speeds) < 0).all()
    assert sent[-1] == STOP
    assert drive(robot, expert, steps=2) == [STOP, RISE]


def test_it_steers_the_robot_that_its_id_names(robot_with, expert_for):
    robot_with("left", task="push")
    right = robot_with("right", task="door-open")
    action = expert_for("right").get_action()
    assert list(action.values()) == Expert("door-open").act(right.state.raw).tolist()
    right.disconnect()
    assert expert_for().get_action() != action


def test_a_robot_that_is_not_there_is_named_before_anything_moves(robot_with, expert_for):
    robot_with("left")
    with pytest.raises(BadInput, match=r"no connected robot is called 'up'. There are left"):
        expert_for("up")
    robot_with("right")
    with pytest.raises(BadInput, match=r"2 connected robots fit ''. .* left, right"):
        expert_for()


def test_it_may_be_connected_before_its_robot(robot_with, expert_for):
    """As lerobot-record and lerobot-teleoperate do."""
    expert = expert_for("arm")
    with pytest.raises(DeviceNotConnectedError, match="No simulated robot is connected"):
        expert.get_action()
    assert len(drive(robot_with("arm"), expert, steps=3)) == 3


def test_calls_at_the_wrong_time_raise_lerobots_errors(robot_with, expert_for):
    robot_with()
    expert = expert_for()
    with pytest.raises(DeviceAlreadyConnectedError):
        expert.connect()
    expert.disconnect()
    for call in (expert.get_action, expert.disconnect):
        with pytest.raises(DeviceNotConnectedError):
            call()


class BadPolicy(InferenceEngine):
    """Always goes down."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def reset(self) -> None: ...

    def notify_observation(self, obs) -> None: ...

    def get_action(self, obs_frame) -> torch.Tensor:
        return torch.tensor(list(GRAB.values()))


@pytest.mark.parametrize("smooth_handover", [False, True])
def test_dagger_runs_and_records_a_correction_without_a_person(
    robot_with, expert_for, tmp_path, smooth_handover
):
    """LeRobot's own strategy; the keys are pressed after 30 steps and at the success."""
    robot, expert = robot_with(), expert_for("arm")
    features = {
        "action": {"dtype": "float32", "shape": (4,), "names": list(ACTION_NAMES)},
        "observation.state": {"dtype": "float32", "shape": (4,), "names": list(STATE_NAMES)},
    }
    recorded = features | {"intervention": {"dtype": "bool", "shape": (1,), "names": None}}
    dataset = LeRobotDataset.create("local/rollout_x", 80, recorded, root=tmp_path / "data")
    cfg = RolloutConfig(
        robot=robot.config,
        teleop=expert.config,
        policy=LefleetConfig(),
        strategy=DAggerStrategyConfig(num_episodes=1, smooth_handover=smooth_handover),
        dataset=DatasetRecordConfig(repo_id="local/rollout_x", single_task="t", push_to_hub=False),
        fps=2000,
        duration=30,
        play_sounds=False,
        return_to_initial_position=False,
    )
    initial = {name: value for name, value in robot.get_observation().items() if ".pos" in name}
    ctx = RolloutContext(
        runtime=RuntimeContext(cfg=cfg, shutdown_event=Event()),
        hardware=HardwareContext(ThreadSafeRobot(robot), teleop=expert, initial_position=initial),
        policy=PolicyContext(None, None, None, inference=BadPolicy()),
        processors=ProcessorContext(*make_default_processors()),
        data=DatasetContext(dataset, features, features, list(ACTION_NAMES)),
    )
    strategy = DAggerStrategy(cfg.strategy)
    strategy.setup(ctx)

    def press_keys(_action, _clock) -> None:
        phase, extras = strategy._events.phase, robot.extras
        if phase is DAggerPhase.AUTONOMOUS and extras.steps >= 30:
            strategy._events.request_transition("pause_resume")
        elif phase is DAggerPhase.PAUSED or extras.success:
            strategy._events.request_transition("correction")

    robot.on_command = press_keys
    try:
        strategy.run(ctx)
        assert robot.extras.success
    finally:
        strategy.teardown(ctx)
    assert not robot.is_connected
    assert not expert.is_connected
    correction = LeRobotDataset("local/rollout_x", root=tmp_path / "data")
    assert correction.num_episodes == 1
    actions = np.array(correction.hf_dataset["action"])
    assert actions[: RETREAT_STEPS + 1].tolist() == [STOP, *[RISE] * RETREAT_STEPS]
    assert len(actions) > RETREAT_STEPS + 10
    assert np.array(correction.hf_dataset["intervention"]).all()
