"""Who acts, and what is learnt from it."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lefleet.rollouts.messages import Act, Behaviour, Demonstrate, Relabel, TakeOver
from lefleet.sim.expert import Expert, RecoveringExpert

NOTICEABLE = 0.01
"""Less progress than this is creeping, not getting on."""

Action = npt.NDArray[np.float32]
Raw = npt.NDArray[np.float64]


class Move(NamedTuple):
    """One step's action, and the label that this step teaches, if any."""

    execute: Action
    label: Action | None


class Actor(Protocol):
    """Decides one episode's actions."""

    def move(self, raw: Raw, proposed: Action, progress: float) -> Move:
        """`proposed` is the policy's action, zeros where no policy acts."""
        ...


class _PolicyActs:
    def move(self, raw: Raw, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, np.clip(proposed, -1.0, 1.0))


class _ExpertActs:
    def __init__(self, expert: Expert, noise: float, seed: int) -> None:
        self._expert = expert
        self._noise = noise
        self._random = np.random.default_rng(seed)

    def move(self, raw: Raw, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        label = self._expert.act(raw)
        if not self._noise:
            return Move(label, label)
        disturbed = label + self._random.normal(0.0, self._noise, label.shape).astype(np.float32)
        return Move(np.clip(disturbed, -1.0, 1.0), label)


class _ExpertLabels:
    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def move(self, raw: Raw, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, self._expert.act(raw))


class _ExpertTakesOver:
    def __init__(self, expert: RecoveringExpert, patience: int) -> None:
        self._expert = expert
        self._patience = patience
        self._best = 0.0
        self._stalled = 0

    def move(self, raw: Raw, proposed: Action, progress: float) -> Move:
        if self._stalled >= self._patience:
            label = self._expert.act(raw)
            return Move(label, label)
        if progress >= self._best + NOTICEABLE:
            self._best, self._stalled = progress, 0
        else:
            self._stalled += 1
        return Move(proposed, None)


def make_actor(behaviour: Behaviour, task: str, seed: int) -> Actor:
    """A fresh actor for one episode."""
    match behaviour:
        case Act():
            return _PolicyActs()
        case Demonstrate(noise=noise):
            return _ExpertActs(Expert(task), noise, seed)
        case Relabel():
            return _ExpertLabels(Expert(task))
        case TakeOver(patience=patience):
            return _ExpertTakesOver(RecoveringExpert(task), patience)
