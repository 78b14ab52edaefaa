"""What a server publishes to a robot: chunks of actions, and events."""

from typing import Annotated

from msgspec import Meta

from lefleet_client.wire.bodies import Body, Message
from lefleet_client.wire.errors import BadTensor
from lefleet_client.wire.limits import (
    ANSWER,
    CHUNK_ANSWER,
    I64,
    U32,
    U64,
    Count,
    Duration,
    Label,
    Load,
    Text,
)
from lefleet_client.wire.tensor import Tensor, require_floats

REPLACED = "replaced"
"""Start of the reason when another session of the same client replaced this one."""

NEWER = "newer"
"""Start of the reason when the server has seen a newer episode or number in this session. A robot
that sent none opens a new session."""


class ActionChunk(Message, frozen=True, kw_only=True):
    """Actions as the policy made them and as the robot executes them, one row per step.

    `digest` names the checkpoint that computed it. `superseded` counts this client's requests that
    newer ones overwrote since its last chunk. A request waited `queue_wait_ms` in all; decoding and
    the policy's preprocessing took `prepare_ms`, the policy and its postprocessing `inference_ms`.
    """

    chunk_model: Tensor
    chunk_robot: Tensor
    seq_id: U64
    episode_id: U32
    client_mono_ns: I64
    digest: Label
    queue_wait_ms: Duration = 0.0
    prepare_ms: Duration = 0.0
    inference_ms: Duration = 0.0
    batch_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    superseded: Count = 0
    load: Load = 0.0

    def __post_init__(self) -> None:
        require_floats(self.chunk_model, 2, "chunk_model")
        require_floats(self.chunk_robot, 2, "chunk_robot")
        if self.chunk_model.shape != self.chunk_robot.shape:
            raise BadTensor(
                f"chunk_model is {self.chunk_model.shape}, chunk_robot is {self.chunk_robot.shape}"
            )


class Draining(Message, frozen=True, kw_only=True):
    """The server is about to stop: find another one."""


class RequestFailed(Message, frozen=True, kw_only=True):
    """No chunk will come for this request."""

    seq_id: U64
    reason: Text


class Probed(Message, frozen=True, kw_only=True):
    """A probe arrived, and was decoded."""

    seq_id: U64
    decode_ms: Duration


class SessionClosed(Message, frozen=True, kw_only=True):
    """There is no session: it ended, or there never was one."""

    reason: Text


Event = Draining | Probed | RequestFailed | SessionClosed

CHUNK: Body[ActionChunk] = Body("chunk", ActionChunk, CHUNK_ANSWER)
EVENT: Body[Event] = Body("event", Event, ANSWER)
