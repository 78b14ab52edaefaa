"""The simulated robot through LeRobot's own discovery, factory, wrapper and homing."""

from dataclasses import dataclass

import draccus
import numpy as np
import pytest
from lerobot.configs.parser import load_plugin
from lerobot.robots import RobotConfig, make_robot_from_config
from lerobot.rollout.context import HardwareContext
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.rollout.strategies.core import RolloutStrategy

from lefleet.sim.encode import ACTION_NAMES, ROBOT_TYPE, STATE_NAMES


@dataclass
class Program:
    """What LeRobot's programs parse."""

    robot: RobotConfig


def make_robot(tmp_path, *flags: str):
    load_plugin("lefleet.robots")
    args = ["--robot.type=lefleet_sim", f"--robot.calibration_dir={tmp_path}", *flags]
    return make_robot_from_config(draccus.parse(Program, args=args).robot)


def test_lerobot_finds_it_and_reads_its_flags(tmp_path):
    robot = make_robot(tmp_path, "--robot.task=reach", "--robot.cameras=[corner, top]")
    assert type(robot).__name__ == "LeFleetSim"
    assert robot.name == robot.config.type == "lefleet_sim"
    assert robot.robot_type == ROBOT_TYPE, "as in the contracts of its checkpoints"
    assert list(robot.cameras) == ["corner", "top"]


def test_an_unusable_field_is_named_by_lerobots_factory(tmp_path):
    with pytest.raises(ValueError, match="task: no MetaWorld task is called 'raech'"):
        make_robot(tmp_path, "--robot.task=raech")


@pytest.mark.parametrize("task", ["push", "door-open"])
def test_homing_returns_to_the_initial_position(tmp_path, task):
    """Within half a centimetre: one unit is ten."""
    robot = make_robot(
        tmp_path, f"--robot.task={task}", "--robot.time=stepped", "--robot.horizon=500"
    )
    robot.connect()
    initial = {k: v for k, v in robot.get_observation().items() if k.endswith(".pos")}
    assert tuple(initial) == STATE_NAMES
    for _ in range(60):
        robot.send_action(dict(zip(ACTION_NAMES, (0.5, 0.6, -0.3, 1.0), strict=True)))

    def distances() -> np.ndarray:
        observation = robot.get_observation()
        return np.array([abs(observation[name] - initial[name]) for name in STATE_NAMES])

    assert (distances() > 0.5).all()
    hardware = HardwareContext(ThreadSafeRobot(robot), teleop=None, initial_position=initial)
    RolloutStrategy._return_to_initial_position(hardware, duration_s=0.3, fps=500)
    assert robot.extras.steps == 210
    assert (distances() < 0.05).all()
