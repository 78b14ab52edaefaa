"""The examples as a newcomer runs them: real programs, real `lefleet serve` processes."""

import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy

from lefleet import TrainRequest, run_stage
from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, FPS, ROBOT_TYPE, STATE_NAMES
from tests.cli.child import SLOW_S, Child, reserved_port
from tests.policy import tiny

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are in the repository only"),
    pytest.mark.slow,
]
SAWYER = {tiny.STATE: STATE_NAMES, tiny.ENVIRONMENT: ENVIRONMENT_NAMES}


def policy_of_the_simulation(folder: Path) -> None:
    """Random weights for the simulated robot: it moves, somewhere."""
    kinds = {tiny.STATE: FeatureType.STATE, tiny.ENVIRONMENT: FeatureType.ENV}
    config = ACTConfig(
        input_features={k: PolicyFeature(kinds[k], (len(n),)) for k, n in SAWYER.items()},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(ACTION_NAMES),))},
        **tiny._SMALL_ACT,
    )
    tiny._save(folder, config, ACTPolicy, contract=False, seed=0)
    tiny.write_contract(
        folder,
        config,
        action_names=ACTION_NAMES,
        vectors=SAWYER,
        fps=FPS,
        robot_type=ROBOT_TYPE,
    )


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory):
    """Of a server for the simulated robot, and of one for the numpy arm."""
    folder = tmp_path_factory.mktemp("served")
    policy_of_the_simulation(folder / "sawyer")
    tiny.act_images(folder / "arm", cameras=(tiny.TOP,), spread=0.05)
    found = {}
    with ExitStack() as stack:
        servers = []
        for name in ("sawyer", "arm"):
            found[name] = f"tcp/127.0.0.1:{stack.enter_context(reserved_port())}"
            arguments = ("serve", f"./{name}", f"--zenoh.listen=[{found[name]}]", "--json")
            servers.append(stack.enter_context(Child(*arguments, folder=folder)))
        for server in servers:
            server.wait_for(lambda child: child.out)
        yield found
        for server in servers:
            server.signal(signal.SIGTERM)
            assert server.end() == 0, server.err


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The example's output; it must end by itself."""
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=SLOW_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    # LeRobot logs why torchcodec cannot be loaded, and uses another decoder.
    assert "Traceback" not in ended.stderr or "libtorchcodec" in ended.stderr
    return ended


def test_a_lerobot_robot_moves_and_its_program_ends(endpoints, tmp_path):
    ended = run(
        "so101_remote.py",
        "--robot.discover_packages_path=lefleet.robots",
        "--robot.type=lefleet_sim",
        "--robot.time=stepped",
        f"--robot.calibration_dir={tmp_path}",
        f"--connect={endpoints['sawyer']}",
        f"--fps={FPS}",
        "--seconds=1",
    )
    lines = re.findall(r"^(\S+) went from (\S+) to (\S+)$", ended.stdout, re.MULTILINE)
    assert [name for name, _, _ in lines] == list(STATE_NAMES)
    assert max(abs(float(before) - float(after)) for _, before, after in lines) > 0.1
    assert "WARNING" not in ended.stderr, "names, rate and type are those of the policy"


def test_a_numpy_robot_moves_and_its_program_ends(endpoints):
    ended = run("numpy_robot.py", endpoints["arm"], "--seconds=2")
    (executed,) = re.findall(r"^(\d+) actions,", ended.stdout, re.MULTILINE)
    assert int(executed) > 5
    joints = dict(re.findall(r"^(\S+) is at (\S+)$", ended.stdout, re.MULTILINE))
    assert tuple(joints) == tiny.JOINTS
    assert max(abs(float(value)) for value in joints.values()) > 0.1
    assert "streaming" in ended.stderr


def test_a_server_refuses_a_robot_that_is_not_the_policys(endpoints):
    """The arm's joints at the simulated robot's policy: it never moves."""
    program = [sys.executable, EXAMPLES / "numpy_robot.py", endpoints["sawyer"]]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=SLOW_S, check=False)
    assert ended.returncode == 1
    assert "Refused" in ended.stderr.splitlines()[-1]
    assert ended.stdout == ""


def test_the_arm_says_in_one_line_why_a_server_refuses_it(endpoints):
    program = [sys.executable, EXAMPLES / "arm_robot.py", endpoints["sawyer"]]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=SLOW_S, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1].startswith("arm_robot: ")
    assert "Traceback" not in ended.stderr


def test_an_arm_of_ones_own_learns_from_its_joints_alone(tmp_path):
    """From data to a robot that ends where it should: nothing but joints, in degrees."""
    data = tmp_path / "data"
    wrote = run("arm_dataset.py", str(data), "--episodes=20")
    assert "20 episodes, " in wrote.stdout
    record = run_stage(TrainRequest(dataset=str(data), steps=250), tmp_path / "train")
    assert record.final_loss < 0.1
    with ExitStack() as stack:
        endpoint = f"tcp/127.0.0.1:{stack.enter_context(reserved_port())}"
        arguments = ("serve", "./train", f"--zenoh.listen=[{endpoint}]", "--json")
        server = stack.enter_context(Child(*arguments, folder=tmp_path))
        server.wait_for(lambda child: child.out)
        drove = run("arm_robot.py", endpoint, "--episodes=3")
        server.signal(signal.SIGTERM)
        assert server.end() == 0, server.err
    assert drove.stdout.splitlines()[-1].startswith("3 of 3 episodes ended at the tray"), drove


def test_an_arm_with_a_camera_is_recorded_with_it(tmp_path):
    run("arm_dataset.py", str(tmp_path / "data"), "--episodes=1", "--camera")
    info = json.loads((tmp_path / "data/meta/info.json").read_text())
    assert info["features"]["observation.images.top"]["shape"] == [96, 96, 3]
