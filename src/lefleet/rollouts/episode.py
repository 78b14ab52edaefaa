"""One running episode: a world, who acts in it, what is learnt from it, and its film."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

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
from lefleet.sim.encode import FPS, EncodedObservation, encode
from lefleet.sim.render import NoGraphics, Renderer
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import MAX_STEPS, Action, Expert, RawObservation, RecoveringExpert, World

if TYPE_CHECKING:
    from lefleet.sim.render import RenderedFrame

NOTICEABLE = 0.01
"""Less progress than this does not count."""


class Move(NamedTuple):
    """One step's action, and the label that this step teaches, if any."""

    execute: Action
    label: Action | None


class Actor(Protocol):
    """Decides one episode's actions."""

    def move(self, raw: RawObservation, proposed: Action, progress: float) -> Move:
        """`proposed` is the policy's action, zeros where no policy acts."""
        ...


class _PolicyActs:
    def move(self, raw: RawObservation, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, np.clip(proposed, -1.0, 1.0))


class _ExpertActs:
    def __init__(self, expert: Expert, noise: float, seed: int) -> None:
        self._expert = expert
        self._noise = noise
        self._random = np.random.default_rng(seed)

    def move(self, raw: RawObservation, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        label = self._expert.act(raw)
        if not self._noise:
            return Move(label, label)
        disturbed = label + self._random.normal(0.0, self._noise, label.shape).astype(np.float32)
        return Move(np.clip(disturbed, -1.0, 1.0), label)


class _ExpertLabels:
    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def move(self, raw: RawObservation, proposed: Action, progress: float) -> Move:  # noqa: ARG002
        return Move(proposed, self._expert.act(raw))


class _ExpertTakesOver:
    def __init__(self, expert: RecoveringExpert, patience: int) -> None:
        self._expert = expert
        self._patience = patience
        self._best = 0.0
        self._stalled = 0

    def move(self, raw: RawObservation, proposed: Action, progress: float) -> Move:
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


_EVERY = 2


class Film:
    """Films a simulation; where that is impossible, reports why instead of failing the episode."""

    def __init__(self, sim: Any) -> None:
        self._frames: list[RenderedFrame] = []
        self._problem = ""
        self._steps = 0
        try:
            self._renderer: Renderer | None = Renderer(sim)
        except NoGraphics as error:
            self._renderer = None
            self._problem = str(error)
        self.shoot()

    def shoot(self) -> None:
        if self._renderer is not None and self._steps % _EVERY == 0:
            self._frames.append(self._renderer.frame())
        self._steps += 1

    def write(self, path: Path) -> str:
        """Write the film; returns why it could not, or an empty string."""
        if self._renderer is None:
            return self._problem
        self._renderer.close()
        import av

        path.parent.mkdir(parents=True, exist_ok=True)
        height, width, _ = self._frames[0].shape
        with av.open(str(path), "w") as container:
            stream = container.add_stream("h264", rate=FPS // _EVERY)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for image in self._frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            container.mux(stream.encode())
        return ""


class Episode:
    """Starts at construction; `step` until `ended`, then `finish` once."""

    def __init__(self, planned: PlannedEpisode, world: World, batch: EpisodeBatch) -> None:
        self.planned = planned
        self.world = world
        self.ended = False
        self._batch = batch
        self._limit = episode_limit(batch, planned.task)
        self._actor = make_actor(batch.behaviour, planned.task, planned.seed)
        self._raw = world.reset(planned.seed)
        self._start = hashlib.sha256(self._raw.tobytes()).hexdigest()[:16]
        self.observation = encode(self._raw, planned.task)
        self._success = False
        self._steps = 0
        self._taught: list[tuple[EncodedObservation, Action]] = []
        self._film = Film(world.sim) if planned.video else None

    def step(self, proposed: Action) -> None:
        """One control step with the policy's `proposed` action, zeros where no policy acts."""
        move = self._actor.move(self._raw, proposed, self.world.progress)
        if move.label is not None and self.planned.frames:
            self._taught.append((self.observation, move.label))
        outcome = self.world.step(move.execute)
        self._steps += 1
        self._raw = outcome.raw
        self.observation = encode(outcome.raw, self.planned.task)
        self._success = outcome.success
        self.ended = outcome.success or self._steps >= self._limit
        if self._film is not None:
            self._film.shoot()

    def finish(self) -> Finished:
        """Write what is to be kept and report."""
        kept = bool(self._taught) and (self._success or self._batch.keep_failures)
        if kept:
            _write_frames(Path(self.planned.frames), self._taught)
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
            start=self._start,
        )


def episode_limit(batch: EpisodeBatch, task: str) -> int:
    """Steps before an episode is cut off. An expert that takes over gets as many again."""
    limit = batch.episode_length or TASKS[task].horizon
    return min(2 * limit, MAX_STEPS) if isinstance(batch.behaviour, TakeOver) else limit


def _write_frames(path: Path, taught: list[tuple[EncodedObservation, Action]]) -> None:
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
