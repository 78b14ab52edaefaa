"""What a server answers: a chunk of future actions."""

from typing import Annotated

from msgspec import Meta

from lefleet_client.wire.base import Message
from lefleet_client.wire.errors import BadTensor
from lefleet_client.wire.limits import I64, U32, U64, Count, Duration, Load
from lefleet_client.wire.tensor import Tensor, require_floats


class ActionChunk(Message, frozen=True, kw_only=True):
    """Actions as the policy made them and as the robot executes them, one row per step.

    `superseded` counts this client's requests that newer ones overwrote since its last answer.
    A request waited `queue_wait_ms` in all; decoding and the policy's preprocessing took
    `prepare_ms`, the policy and its postprocessing `inference_ms`.
    """

    chunk_model: Tensor
    chunk_robot: Tensor
    seq_id: U64
    episode_id: U32
    client_mono_ns: I64
    queue_wait_ms: Duration = 0.0
    prepare_ms: Duration = 0.0
    inference_ms: Duration = 0.0
    batch_size: Annotated[int, Meta(ge=1)] = 1
    superseded: Count = 0
    load: Load = 0.0

    def __post_init__(self) -> None:
        require_floats(self.chunk_model, 2, "chunk_model")
        require_floats(self.chunk_robot, 2, "chunk_robot")
        if self.chunk_model.shape != self.chunk_robot.shape:
            raise BadTensor(
                f"chunk_model is {self.chunk_model.shape}, chunk_robot is {self.chunk_robot.shape}"
            )
