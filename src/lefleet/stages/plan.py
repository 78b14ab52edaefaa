"""Which episodes run in which batch: fixed before the first step, whatever was already done."""

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import batched
from typing import NamedTuple

from lefleet.rollouts import Behaviour, EpisodeBatch, PlannedEpisode


class Key(NamedTuple):
    """One episode: who acts, in which task, from which seed."""

    checkpoint: str
    task: str
    seed: int


def interleave(checkpoint: str, tasks: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """All tasks for the first seed, then all for the second: every stretch is balanced."""
    return [Key(checkpoint, task, seed) for seed in seeds for task in tasks]


def plan_batches(
    episodes: Sequence[Key],
    done: Container[Key],
    *,
    size: int,
    behaviour: Behaviour,
    plan_episode: Callable[[int, Key], PlannedEpisode],
    episode_length: int = 0,
    keep_failures: bool = False,
) -> Iterator[EpisodeBatch]:
    """Batches of at most `size` episodes of one checkpoint, without those that are `done`.

    Batches and rows are laid out over all episodes first and thinned out afterwards, so a resumed
    stage computes the missing episodes exactly as an uninterrupted one would have.
    """
    for group in batched(episodes, size):
        planned = tuple(plan_episode(row, key) for row, key in enumerate(group) if key not in done)
        if planned:
            yield EpisodeBatch(
                size=size,
                episodes=planned,
                behaviour=behaviour,
                checkpoint=group[0].checkpoint,
                seed=group[0].seed,
                episode_length=episode_length,
                keep_failures=keep_failures,
            )
