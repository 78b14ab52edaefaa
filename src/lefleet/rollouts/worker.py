"""Worker process: batches from stdin, stepped to their ends, finished episodes to stdout."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from lefleet.process.pool import DONE
from lefleet.rollouts.episode import Episode
from lefleet.rollouts.messages import BEGUN, Demonstrate, EpisodeBatch, Finished, PlannedEpisode
from lefleet.rollouts.metaworld import MetaWorld
from lefleet.rollouts.worlds import EnvObservation, EpisodeWorld
from lefleet.sim.render import Renderers

if TYPE_CHECKING:
    from lefleet.rollouts.environments import Environment


class Acting(Protocol):
    """What the engine needs of a policy."""

    @property
    def looks(self) -> bool:
        """Whether the next actions depend on the observations that they are asked with."""
        ...

    def reset(self, seed: int) -> None: ...

    def act(
        self, observations: Sequence[EnvObservation], instructions: Sequence[str]
    ) -> npt.NDArray[np.float32]: ...


class Resources:
    """Worlds and policies, kept between batches.

    Worlds of LeRobot environments come in sets, one of every task: those that a batch does not need
    wait for one that does.
    """

    def __init__(self, load_policy: "Callable[[str, Environment | None], Acting]") -> None:
        self._load_policy = load_policy
        self._environments: dict[str, Environment] = {}
        self._policies: dict[tuple[str, str], Acting] = {}
        self._idle: defaultdict[tuple[str, str], list[EpisodeWorld]] = defaultdict(list)
        self._renderers = Renderers()

    def policy(self, env: Mapping[str, str], checkpoint: str) -> Acting:
        key = _name(env), checkpoint
        if key not in self._policies:
            environment = self._environment(env) if env else None
            self._policies[key] = self._load_policy(checkpoint, environment)
        return self._policies[key]

    def take(self, batch: EpisodeBatch, task: str) -> EpisodeWorld:
        """A world that no episode runs in."""
        name = _kind(batch)
        if not self._idle[name, task]:
            for other, world in self._make(batch, task).items():
                self._idle[name, other].append(world)
        return self._idle[name, task].pop()

    def give_back(self, batch: EpisodeBatch, task: str, world: EpisodeWorld) -> None:
        self._idle[_kind(batch), task].append(world)

    def _make(self, batch: EpisodeBatch, task: str) -> "Mapping[str, EpisodeWorld]":
        if batch.env:
            return self._environment(batch.env).worlds()
        return {task: MetaWorld(task, batch.cameras, self._renderers)}

    def close(self) -> None:
        """Give up what Python would give up in the wrong order at its end."""
        self._renderers.close()

    def _environment(self, env: Mapping[str, str]) -> "Environment":
        from lefleet.rollouts.environments import make_environment

        name = _name(env)
        if name not in self._environments:
            self._environments[name] = make_environment(env)
        return self._environments[name]


def _kind(batch: EpisodeBatch) -> str:
    """Batches of one kind share their worlds."""
    return msgspec.json.encode((batch.env, batch.cameras), order="deterministic").decode()


def _name(env: Mapping[str, str]) -> str:
    return msgspec.json.encode(env, order="deterministic").decode()


class Engine:
    """Runs batches one after the other, keeping worlds and policies between them.

    `on_begin` is called when the episodes of the first batch begin.
    """

    def __init__(
        self,
        load_policy: "Callable[[str, Environment | None], Acting]",
        on_begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._resources = Resources(load_policy)
        self._on_begin = on_begin
        self._has_begun = False

    def run(self, batch: EpisodeBatch) -> Iterator[Finished]:
        """Yields every episode as it ends."""
        policy = self._policy_of(batch)
        episodes = []
        for planned in batch.episodes:
            with _named(planned):
                world = self._resources.take(batch, planned.task)
                episodes.append(Episode(planned, world, batch))
        first = episodes[0]
        # Rows without an episode, and rows whose episode has ended, keep some valid observation.
        rows = [first.observation] * batch.size
        instructions = [first.world.instruction] * batch.size
        for episode in episodes:
            instructions[episode.planned.row] = episode.world.instruction
        nothing = np.zeros((batch.size, len(first.world.actions.low)), np.float32)
        running = episodes
        if not self._has_begun:
            self._has_begun = True
            self._on_begin()
        while running:
            if policy is not None and policy.looks:
                for episode in running:
                    rows[episode.planned.row] = episode.observation
            actions = nothing if policy is None else policy.act(rows, instructions)
            for episode in running:
                with _named(episode.planned):
                    episode.step(actions[episode.planned.row])
                if episode.ended:
                    yield episode.finish()
                    self._resources.give_back(batch, episode.planned.task, episode.world)
            running = [episode for episode in running if not episode.ended]

    def close(self) -> None:
        self._resources.close()

    def _policy_of(self, batch: EpisodeBatch) -> Acting | None:
        if isinstance(batch.behaviour, Demonstrate):
            return None
        policy = self._resources.policy(batch.env, batch.checkpoint)
        policy.reset(batch.seed)
        return policy


@contextmanager
def _named(planned: PlannedEpisode) -> Iterator[None]:
    """An episode that crashes is called by its name."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise RuntimeError(f"{planned.task} with seed {planned.seed} crashed, {reason}") from error


def main() -> None:
    device = sys.argv[1]
    # Libraries print; what belongs to the protocol goes to a copy of stdout that only we know.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def load_policy(checkpoint: str, environment: "Environment | None") -> Acting:
        from lefleet.rollouts.policy import BatchPolicy

        return BatchPolicy(checkpoint, device, environment)

    def answer(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    with closing(Engine(load_policy, on_begin=lambda: answer(BEGUN))) as engine:
        for line in sys.stdin.buffer:
            for finished in engine.run(msgspec.json.decode(line, type=EpisodeBatch)):
                answer(msgspec.json.encode(finished))
            answer(DONE)


if __name__ == "__main__":
    main()
