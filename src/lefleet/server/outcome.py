"""What became of a request: one value for the audit log, the metrics and the status."""

from dataclasses import dataclass
from typing import Literal, Protocol

Result = Literal["answered", "failed", "stale"]
"""answered: a chunk was sent. failed: the robot was told why not. stale: a new episode or session
began meanwhile, so nobody waits for it."""


@dataclass(frozen=True)
class Outcome:
    """One request that was taken up, from its deposit to its end."""

    session_id: str
    client_id: str
    session_epoch: int
    episode_id: int
    seq_id: int
    seed: int
    result: Result
    reason: str
    """Why it failed or is stale; empty when it was answered."""
    queue_wait_ms: float
    """From its arrival, without the time that was spent on it."""
    prepare_ms: float
    inference_ms: float
    batch_size: int
    superseded: int
    """Requests of this robot that were overwritten since its last answer."""


class Observer(Protocol):
    """Hears of every outcome, on the thread that infers: it returns at once and never raises."""

    def finished(self, outcome: Outcome) -> None: ...
