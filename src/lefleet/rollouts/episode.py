"""One running episode: a world, who acts in it, what is learnt from it, and its film."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lefleet.rollouts.film import Film
from lefleet.rollouts.messages import (
    Act,
    Behaviour,
    Demonstrate,
    EpisodeBatch,
    Finished,
    PlannedEpisode,
    Relabel,
    TakeOver,
)
from lefleet.rollouts.worlds import ActionRange, EnvObservation, EpisodeWorld
from lefleet.sim.world import Action

NOTICEABLE = 0.01
"""Less progress than this does not count."""


class Move(NamedTuple):
    """One step's action, and the label that this step teaches, if any."""

    execute: Action
    label: Action | None


class Actor(Protocol):
    """Decides one episode's actions."""

    def move(self, proposed: Action, progress: float) -> Move:
        """`proposed` is the policy's action, zeros where no policy acts."""
        ...


class _PolicyActs:
    def __init__(self, actions: ActionRange) -> None:
        self._actions = actions

    def move(self, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, self._actions.clip(proposed))


class _ExpertActs:
    def __init__(
        self, expert: Callable[[], Action], actions: ActionRange, noise: float, seed: int
    ) -> None:
        self._expert = expert
        self._actions = actions
        self._noise = noise * actions.scale
        self._random = np.random.default_rng(seed)

    def move(self, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        label = self._expert()
        if not self._noise.any():
            return Move(label, label)
        disturbed = label + self._random.normal(0.0, self._noise, label.shape).astype(np.float32)
        return Move(self._actions.clip(disturbed), label)


class _ExpertLabels:
    def __init__(self, expert: Callable[[], Action]) -> None:
        self._expert = expert

    def move(self, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, self._expert())


class _ExpertTakesOver:
    def __init__(self, expert: Callable[[], Action], patience: int) -> None:
        self._expert = expert
        self._patience = patience
        self._best = 0.0
        self._stalled = 0

    def move(self, proposed: Action, progress: float) -> Move:
        if self._stalled >= self._patience:
            label = self._expert()
            return Move(label, label)
        if progress >= self._best + NOTICEABLE:
            self._best, self._stalled = progress, 0
        else:
            self._stalled += 1
        return Move(proposed, None)


def make_actor(behaviour: Behaviour, world: EpisodeWorld, seed: int) -> Actor:
    """A fresh actor for one episode."""
    match behaviour:
        case Act():
            return _PolicyActs(world.actions)
        case Demonstrate(noise=noise):
            return _ExpertActs(world.expert(takes_over=False), world.actions, noise, seed)
        case Relabel():
            return _ExpertLabels(world.expert(takes_over=False))
        case TakeOver(patience=patience):
            return _ExpertTakesOver(world.expert(takes_over=True), patience)


class Episode:
    """Starts at construction; `step` until `ended`, then `finish` once."""

    def __init__(self, planned: PlannedEpisode, world: EpisodeWorld, batch: EpisodeBatch) -> None:
        self.planned = planned
        self.world = world
        self.ended = False
        self._batch = batch
        world.reset(planned.seed, planned.number)
        self._limit = episode_limit(batch, world)
        self._actor = make_actor(batch.behaviour, world, planned.seed)
        self._success = False
        self._steps = 0
        self._taught: list[tuple[EnvObservation, Action]] = []
        self._film = Film(world.camera, world.fps) if planned.video else None

    @property
    def observation(self) -> EnvObservation:
        """Of the world as it is now."""
        return self.world.observe()

    def step(self, proposed: Action) -> None:
        """One control step with the policy's `proposed` action, zeros where no policy acts."""
        move = self._actor.move(proposed, self.world.progress)
        if move.label is not None and self.planned.frames:
            self._taught.append((self.observation, move.label))
        outcome = self.world.step(move.execute)
        self._steps += 1
        self._success = self._success or outcome.success
        self.ended = outcome.ended or self._steps >= self._limit
        if self._film is not None:
            self._film.shoot()

    def finish(self) -> Finished:
        """Write what is to be kept and report."""
        kept = bool(self._taught) and (self._success or self._batch.keep_failures)
        if kept:
            frames = [(self.world.frame(seen), label) for seen, label in self._taught]
            _write_frames(Path(self.planned.frames), frames)
        problem = self._film.write(Path(self.planned.video)) if self._film is not None else ""
        return Finished(
            task=self.planned.task,
            seed=self.planned.seed,
            success=self._success,
            progress=self.world.progress,
            length=self._steps,
            checkpoint=self._batch.checkpoint,
            label=self._batch.label,
            labelled=len(self._taught) if kept else 0,
            frames=self.planned.frames if kept else "",
            video="" if problem else self.planned.video,
            video_problem=problem,
            start=self.world.start,
        )


def episode_limit(batch: EpisodeBatch, world: EpisodeWorld) -> int:
    """Steps before an episode is cut off. An expert that takes over gets as many again."""
    limit = batch.episode_length or world.horizon
    twice = 2 * limit if isinstance(batch.behaviour, TakeOver) else limit
    return min(twice, world.max_steps)


def _write_frames(path: Path, taught: Sequence[tuple[dict[str, npt.NDArray[Any]], Action]]) -> None:
    """All at once under the final name, so that a file that exists is complete."""
    partial = path.with_suffix(".partial")
    columns: dict[str, Any] = {}
    for key in taught[0][0]:
        columns[key] = np.stack([frame[key] for frame, _ in taught])
    columns["action"] = np.stack([label for _, label in taught]).astype(np.float32)
    # Images would fill the disk: 8 MB for an episode of two small cameras.
    has_images = any(column.dtype == np.uint8 for column in columns.values())
    with partial.open("wb") as file:
        (np.savez_compressed if has_images else np.savez)(file, **columns)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
