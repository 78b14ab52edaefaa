"""Only a chunk that the session's policy can have made reaches the robot."""

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import BadChunk
from tests.client.remote.scripted import STEPS, answer, observation


def actions(rows: int = STEPS, columns: int = 2, last: float = 0.0) -> wire.Tensor:
    array = np.zeros((rows, columns), np.float32)
    array[-1, -1] = last
    return wire.encode_tensor(array)


@pytest.mark.parametrize(
    ("model", "robot", "fault"),
    [
        (actions(columns=7), actions(columns=7), "4 x 7, not 4 x 2: shoulder.pos, gripper.pos"),
        (actions(columns=1), actions(columns=1), "4 x 1, not 4 x 2"),
        (actions(rows=3), actions(rows=3), "3 x 2, not 4 x 2"),
        (actions(rows=5), actions(rows=5), "5 x 2, not 4 x 2"),
        (actions(), actions(last=np.nan), "chunk_robot has NaN or infinity"),
        (actions(), actions(last=-np.inf), "chunk_robot has NaN or infinity"),
        (actions(last=np.nan), actions(), "chunk_model has NaN or infinity"),
    ],
    ids=["wide", "narrow", "short", "long", "NaN for the robot", "infinity", "NaN of the policy"],
)
def test_a_chunk_that_no_robot_may_execute_is_an_error(world, model, robot, fault):
    server = world.server(act=lambda request: request.chunk(chunk_model=model, chunk_robot=robot))
    policy = world.robot()
    with pytest.raises(BadChunk, match=f"server a .*{fault}"):
        policy.infer(observation())
    server.act = answer
    assert policy.infer(observation()).robot.shape == (STEPS, 2)


def test_a_bad_chunk_of_another_request_is_not_looked_at(world):
    bad = actions(last=np.nan)

    def forge(request):
        request.chunk(chunk_robot=bad, seq_id=request.header.seq_id + 1)
        request.chunk()

    world.server(act=forge)
    np.testing.assert_array_equal(world.robot().infer(observation(2.0)).model, 6.0)
