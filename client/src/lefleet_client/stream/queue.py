"""Actions that wait to be executed, each with the observation that it came from."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Merge = Literal["rtc", "aligned", "append"]
"""How a new chunk meets the actions that are left of the last one.

rtc      replaces them; what was left conditioned the policy
aligned  replaces them; its first steps, which the robot has executed meanwhile, are left out
append   stands behind them: steps that were predicted for the past are executed late
"""


@dataclass(frozen=True)
class Origin:
    """Where an action comes from."""

    observed_at_s: float
    """When its observation was made, on the robot's monotonic clock."""
    session_id: str
    seq_id: int
    episode_id: int
    digest: str
    server: str


class QueuedAction(NamedTuple):
    """One step of a chunk: as the robot executes it, and as the policy made it."""

    robot: NDArray[Any]
    model: NDArray[Any]
    origin: Origin
    step: int


@dataclass(frozen=True)
class QueueSnapshot:
    """The queue when an observation was sent: how many actions had been taken, what was left."""

    taken: int
    left: tuple[QueuedAction, ...]

    @property
    def left_model(self) -> NDArray[Any] | None:
        return np.stack([one.model for one in self.left]) if self.left else None

    @property
    def left_robot(self) -> NDArray[Any] | None:
        return np.stack([one.robot for one in self.left]) if self.left else None


def steps_of(
    model: NDArray[Any], robot: NDArray[Any], origin: Origin, most: int
) -> list[QueuedAction]:
    """The first `most` steps of a chunk."""
    rows = zip(robot[:most], model[:most], strict=True)
    return [QueuedAction(mine, theirs, origin, step) for step, (mine, theirs) in enumerate(rows)]


class ActionQueue:
    """What is left of the newest chunks. It has no lock: the stream's guards it."""

    def __init__(self) -> None:
        self._actions: deque[QueuedAction] = deque()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._actions)

    @property
    def next(self) -> QueuedAction | None:
        return self._actions[0] if self._actions else None

    def take(self) -> QueuedAction:
        """The next action, which is executed now; there must be one."""
        self._taken += 1
        return self._actions.popleft()

    def drop(self) -> None:
        """Leave out the next action; there must be one. It does not count as executed."""
        self._actions.popleft()

    def clear(self) -> None:
        self._actions.clear()

    def snapshot(self) -> QueueSnapshot:
        return QueueSnapshot(self._taken, tuple(self._actions))

    def merge(self, steps: Sequence[QueuedAction], before: QueueSnapshot, how: Merge) -> None:
        """Take in a chunk that was asked for at `before`.

        It is trimmed by the actions that were really executed since then. The time that the answer
        took would be another measure, and a wrong one whenever the robot stood still meanwhile: at
        the start of an episode it would throw away the head of the first chunk.
        """
        if how == "append":
            self._actions.extend(steps)
            return
        executed = self._taken - before.taken
        self._actions = deque(steps[executed:])
