"""What a remote policy answers: actions, and where the time went."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lefleet_client.wire import ActionChunk, decode_tensor


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one answered observation.

    The robot measures `encode_ms` and, from sending to arrival, `round_trip_ms`. The server
    reports what it spent; what remains of the round trip is `network_ms`.
    """

    encode_ms: float
    round_trip_ms: float
    queue_wait_ms: float
    prepare_ms: float
    inference_ms: float

    @property
    def network_ms(self) -> float:
        spent = self.queue_wait_ms + self.prepare_ms + self.inference_ms
        return max(0.0, self.round_trip_ms - spent)

    @property
    def total_ms(self) -> float:
        return self.encode_ms + self.round_trip_ms


@dataclass(frozen=True)
class RemoteChunk:
    """Future actions, float32, step x action: as the policy made them and as the robot does them.

    `superseded` counts this robot's observations that newer ones overwrote since its last answer;
    `load` of the server is between 0 and 1; `digest` is that of the checkpoint that computed it.
    """

    model: NDArray[np.float32]
    robot: NDArray[np.float32]
    timing: Timing
    superseded: int
    load: float
    seq_id: int
    server: str
    digest: str

    @classmethod
    def of(
        cls, chunk: ActionChunk, *, encode_ms: float, round_trip_ms: float, server: str
    ) -> "RemoteChunk":
        """The chunk with arrays of its own, so that keeping it does not keep the message."""
        return cls(
            model=np.array(decode_tensor(chunk.chunk_model), np.float32),
            robot=np.array(decode_tensor(chunk.chunk_robot), np.float32),
            timing=Timing(
                encode_ms=encode_ms,
                round_trip_ms=round_trip_ms,
                queue_wait_ms=chunk.queue_wait_ms,
                prepare_ms=chunk.prepare_ms,
                inference_ms=chunk.inference_ms,
            ),
            superseded=chunk.superseded,
            load=chunk.load,
            seq_id=chunk.seq_id,
            server=server,
            digest=chunk.digest,
        )
