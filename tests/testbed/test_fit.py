"""Which checkpoints can drive the simulated robot."""

from pathlib import Path

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.records import CheckpointContract, decode, encode
from lefleet.robots import LeFleetSim
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.tasks import TASKS
from lefleet.stages.contract import CONTRACT_FILE
from lefleet.stages.references import find_checkpoint
from lefleet.testbed.fit import _by_hand, _misfit, require_fit, tasks_of
from lefleet_client.wire import Contract

STATE, ENVIRONMENT = LeFleetSim.vectors
OURS = Contract(
    action_names=ACTION_NAMES,
    vectors=dict(LeFleetSim.vectors),
    cameras={},
    fps=FPS,
    policy_type="act",
    robot_type="",
)


@pytest.fixture
def weights(weak):
    return find_checkpoint(str(weak), "checkpoint").path


def test_a_policy_trained_on_the_simulation_fits(weights):
    require_fit(weights)
    assert _misfit(OURS) == ""
    assert _misfit(msgspec.structs.replace(OURS, vectors={STATE: LeFleetSim.vectors[STATE]})) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cameras": {"observation.images.top": (24, 32, 3)}}, "looks through observation.images"),
        ({"vectors": {"observation.force": ("x",)}}, "takes observation.force, which the sim"),
        ({"vectors": {STATE: ("a", "b")}}, f"{STATE} is not the simulated robot's: 2 columns"),
        (
            {"vectors": {STATE: LeFleetSim.vectors[STATE][::-1]}},
            "column 0 is gripper_open.pos, not hand_x.pos",
        ),
        ({"action_names": ("a",)}, "actions are not the simulated robot's: 1 columns, not 4"),
        ({"fps": 30.0}, "trained at 30 Hz, the simulated robot has 80"),
    ],
)
def test_what_does_not_fit_is_named(change, problem):
    assert problem in _misfit(msgspec.structs.replace(OURS, **change))


def test_the_refusal_says_what_fits(checkpoint_of):
    with pytest.raises(BadInput) as caught:
        require_fit(str(checkpoint_of("act_images")))
    assert "checkpoint: the policy looks through observation.images" in caught.value.problem
    assert "hand_x.vel" in caught.value.remedy
    assert "80 Hz" in caught.value.remedy


def test_a_policy_that_sees_the_robot_s_cameras_is_told_how_to_drive_one():
    image = {"observation.images.corner": (32, 48, 3)}
    said = _by_hand(msgspec.structs.replace(OURS, cameras=image))
    assert "--robot.cameras=[corner] --robot.camera_width=48 --robot.camera_height=32" in said


def test_tasks_are_those_named_or_those_of_the_training(weights, tmp_path):
    assert tasks_of(weights, ("reach",)) == ("reach",)
    assert tasks_of(weights, ()) == ("push", "pick-place", "door-open")
    with pytest.raises(BadInput, match="does not say which tasks"):
        tasks_of(str(tmp_path), ())
    file = Path(weights) / CONTRACT_FILE
    written = decode(file.read_bytes(), CheckpointContract, "file")
    other = msgspec.structs.replace(written, tasks=("fold a shirt", TASKS["reach"].instruction))
    (tmp_path / CONTRACT_FILE).write_bytes(encode(other))
    assert tasks_of(str(tmp_path), ()) == ("reach",)
