"""Worker process: batches from stdin, stepped to their ends, finished episodes to stdout."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from lefleet.process.pool import DONE
from lefleet.rollouts.episode import Episode
from lefleet.rollouts.messages import BEGUN, Demonstrate, EpisodeBatch, Finished, PlannedEpisode
from lefleet.sim.encode import ACTION_NAMES, EncodedObservation
from lefleet.sim.tasks import TASKS
from lefleet.sim.world import World


class Acting(Protocol):
    """What the engine needs of a policy."""

    def reset(self, seed: int) -> None: ...

    def act(
        self, observations: Sequence[EncodedObservation], instructions: Sequence[str]
    ) -> npt.NDArray[np.float32]: ...


class Engine:
    """Runs batches one after the other, keeping worlds and policies between them.

    `on_begin` is called when the episodes of the first batch begin.
    """

    def __init__(
        self, load_policy: Callable[[str], Acting], on_begin: Callable[[], None] = lambda: None
    ) -> None:
        self._load_policy = load_policy
        self._on_begin = on_begin
        self._has_begun = False
        self._policies: dict[str, Acting] = {}
        self._idle_worlds: defaultdict[str, list[World]] = defaultdict(list)

    def run(self, batch: EpisodeBatch) -> Iterator[Finished]:
        """Yields every episode as it ends."""
        policy = self._policy_of(batch)
        episodes = []
        for planned in batch.episodes:
            with _named(planned):
                episodes.append(Episode(planned, self._take_world(planned.task), batch))
        # Rows without an episode, and rows whose episode has ended, keep some valid observation.
        rows = [episodes[0].observation] * batch.size
        instructions = [TASKS[episodes[0].planned.task].instruction] * batch.size
        for episode in episodes:
            instructions[episode.planned.row] = TASKS[episode.planned.task].instruction
        nothing = np.zeros((batch.size, len(ACTION_NAMES)), np.float32)
        running = episodes
        if not self._has_begun:
            self._has_begun = True
            self._on_begin()
        while running:
            for episode in running:
                rows[episode.planned.row] = episode.observation
            actions = nothing if policy is None else policy.act(rows, instructions)
            for episode in running:
                with _named(episode.planned):
                    episode.step(actions[episode.planned.row])
                if episode.ended:
                    yield episode.finish()
                    self._idle_worlds[episode.planned.task].append(episode.world)
            running = [episode for episode in running if not episode.ended]

    def _policy_of(self, batch: EpisodeBatch) -> Acting | None:
        if isinstance(batch.behaviour, Demonstrate):
            return None
        if batch.checkpoint not in self._policies:
            self._policies[batch.checkpoint] = self._load_policy(batch.checkpoint)
        policy = self._policies[batch.checkpoint]
        policy.reset(batch.seed)
        return policy

    def _take_world(self, task: str) -> World:
        idle = self._idle_worlds[task]
        return idle.pop() if idle else World(task)


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

    def load_policy(checkpoint: str) -> Acting:
        from lefleet.rollouts.policy import BatchPolicy

        return BatchPolicy(checkpoint, device)

    def answer(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    engine = Engine(load_policy, on_begin=lambda: answer(BEGUN))
    for line in sys.stdin.buffer:
        for finished in engine.run(msgspec.json.decode(line, type=EpisodeBatch)):
            answer(msgspec.json.encode(finished))
        answer(DONE)


if __name__ == "__main__":
    main()
