"""A rollout whose weights are on the robot: LeRobot's engines under the same guard."""

from threading import Event

import pytest
from lerobot.configs import PreTrainedConfig
from lerobot.robots.robot import Robot
from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators

from lefleet.edge.engine import require_same_policy
from lefleet.edge.features import inputs_of
from lefleet.edge.flags import parse_flags
from lefleet.edge.rollout import run_rollout
from lefleet.errors import BadInput
from lefleet.robots import LeFleetSim, LeFleetSimConfig
from tests.policy.tiny import FPS, JOINTS, PLUGINS, STATE

FLAGS = (
    "--robot.type=lefleet_sim",
    f"--fps={FPS}",
    "--duration=1",
    "--return_to_initial_position=false",
    f"--robot.discover_packages_path={PLUGINS}",
    "--guard.max_step=0.01",
)


class Joints(Robot):
    """Joints that are where they were told to be."""

    config_class = LeFleetSimConfig
    name = "joints"

    def __init__(self) -> None:
        super().__init__(LeFleetSimConfig())
        self.is_connected = False
        self.commands = [dict.fromkeys(JOINTS, 0.0)]

    is_calibrated = True
    is_connected = False
    observation_features = action_features = dict.fromkeys(JOINTS, float)

    def connect(self, calibrate: bool = True) -> None:
        self.is_connected = True

    def disconnect(self) -> None:
        self.is_connected = False

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, float]:
        return dict(self.commands[-1])

    def send_action(self, action: dict[str, float]) -> dict[str, float]:
        self.commands.append(action)
        return action


def test_real_time_chunking_on_board_drives_through_the_guard(checkpoint_of):
    robot = Joints()
    flags = ("--inference.type=rtc", f"--policy.path={checkpoint_of('rtc_flow')}")
    run_rollout(parse_flags([*FLAGS, *flags]), Event(), robot)
    assert not robot.is_connected
    assert len(robot.commands) > 4
    pairs = zip(robot.commands[1:], robot.commands[2:], strict=False)
    steps = [max(abs(two[name] - one[name]) for name in JOINTS) for one, two in pairs]
    assert 0 < max(steps) < 0.0101


def test_a_robot_without_cameras_drives_a_policy_that_makes_its_environment_state(checkpoint_of):
    robot = Joints()
    folder = checkpoint_of("act_state")
    run_rollout(
        parse_flags([*FLAGS, "--inference.type=sync", f"--policy.path={folder}"]), Event(), robot
    )
    assert len(robot.commands) > 4
    assert max(abs(value) for value in robot.commands[-1].values()) > 0


def test_the_config_of_such_a_policy_is_that_of_its_server(checkpoint_of, policy_of):
    config = PreTrainedConfig.from_pretrained(checkpoint_of("act_state"))
    config.pretrained_path = checkpoint_of("act_state")
    assert list(inputs_of(config)) == [STATE]
    require_same_policy(config, policy_of("act_state").capabilities)
    config.pretrained_path = checkpoint_of("act_environment")
    with pytest.raises(BadInput, match=r"its columns of observation.environment_state: 3; the se"):
        require_same_policy(config, policy_of("act_state").capabilities)


def test_a_policy_with_relative_actions_is_refused_for_sync(checkpoint_of):
    flags = ("--inference.type=sync", f"--policy.path={checkpoint_of('rtc_relative')}")
    with pytest.raises(BadInput, match="sync cannot execute a policy with relative actions"):
        run_rollout(parse_flags([*FLAGS, *flags]), Event(), Joints())


def test_a_policy_of_another_robot_is_refused_before_its_weights_are_loaded(checkpoint_of):
    flags = ("--inference.type=sync", f"--policy.path={checkpoint_of('rtc_flow')}")
    robot = LeFleetSim(LeFleetSimConfig())
    with pytest.raises(BadInput, match=r"it needs observation.state with 3 numbers, the robot has"):
        run_rollout(parse_flags([*FLAGS, *flags]), Event(), robot)
    assert not robot.is_connected
