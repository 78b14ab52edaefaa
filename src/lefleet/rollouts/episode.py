"""One running episode: a world, who acts in it, and what is kept of it."""

import hashlib
import os
from pathlib import Path

import numpy as np

from lefleet.rollouts.behaviour import Action, make_actor
from lefleet.rollouts.film import Film
from lefleet.rollouts.messages import Batch, Finished, Slot, TakeOver
from lefleet.sim.encode import Observation, encode
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS, World


class Episode:
    """Starts at construction; `step` until `ended`, then `finish` once."""

    def __init__(self, slot: Slot, world: World, batch: Batch) -> None:
        self.slot = slot
        self.world = world
        self.ended = False
        self._batch = batch
        self._limit = episode_limit(batch, slot.task)
        self._actor = make_actor(batch.behaviour, slot.task, slot.seed)
        self._raw = world.reset(slot.seed)
        self._start = hashlib.sha256(self._raw.tobytes()).hexdigest()[:16]
        self.observation = encode(self._raw, slot.task)
        self._success = False
        self._steps = 0
        self._taught: list[tuple[Observation, Action]] = []
        self._film = Film(world.sim) if slot.video else None

    def step(self, proposed: Action) -> None:
        """One control step with the policy's `proposed` action, zeros where no policy acts."""
        move = self._actor.move(self._raw, proposed, self.world.progress)
        if move.label is not None and self.slot.frames:
            self._taught.append((self.observation, move.label))
        outcome = self.world.step(move.execute)
        self._steps += 1
        self._raw = outcome.raw
        self.observation = encode(outcome.raw, self.slot.task)
        self._success = outcome.success
        self.ended = outcome.success or self._steps >= self._limit
        if self._film is not None:
            self._film.shoot()

    def finish(self) -> Finished:
        """Write what is to be kept and report."""
        kept = bool(self._taught) and (self._success or self._batch.keep_failures)
        if kept:
            _write_frames(Path(self.slot.frames), self._taught)
        problem = self._film.write(Path(self.slot.video)) if self._film is not None else ""
        return Finished(
            task=self.slot.task,
            seed=self.slot.seed,
            success=self._success,
            progress=self.world.progress,
            length=self._steps,
            checkpoint=self._batch.checkpoint,
            label=self._batch.label,
            labelled=len(self._taught) if kept else 0,
            frames=self.slot.frames if kept else "",
            video="" if problem else self.slot.video,
            video_problem=problem,
            start=self._start,
        )


def episode_limit(batch: Batch, task: str) -> int:
    """Steps before an episode is cut off. An expert that takes over gets as many again."""
    limit = batch.episode_length or TASKS[task].horizon
    return min(2 * limit, MAX_STEPS) if isinstance(batch.behaviour, TakeOver) else limit


def _write_frames(path: Path, taught: list[tuple[Observation, Action]]) -> None:
    """All at once under the final name, so that a file that exists is complete."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(
            file,
            state=np.stack([observation.state for observation, _ in taught]),
            environment=np.stack([observation.environment for observation, _ in taught]),
            action=np.stack([label for _, label in taught]).astype(np.float32),
        )
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
