"""Pairs of episodes: their order, fixed before the first one runs, and when they are complete."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lefleet.errors import StageFailed
from lefleet.records import EpisodeRecord
from lefleet.records.fields import Scope
from lefleet.stages.verdict import Judge, PairOutcome
from lefleet.stats import GateRule


class Trial(NamedTuple):
    """What both checkpoints do once."""

    task: str
    seed: int


def pair_order(tasks: Sequence[str], first_seed: int, max_pairs: int) -> list[Trial]:
    """Every seed once for every task, the tasks shuffled within each seed.

    Any beginning of the order is balanced over the tasks, and no task comes in a row of its own:
    either would break the test.
    """
    chance = random.Random(first_seed)
    order = []
    for number in range(-(-max_pairs // len(tasks))):
        order += [Trial(task, first_seed + number) for task in chance.sample(tasks, len(tasks))]
    return order[:max_pairs]


class PairedEpisodes:
    """Takes episodes as they end, and judges pairs in the order that was fixed.

    A pair counts when all pairs before it are complete, so the verdict depends neither on the
    speed of the workers nor on an interruption.
    """

    def __init__(self, order: Sequence[Trial], rule: GateRule, scope: Scope = "pooled") -> None:
        self.judge = Judge(rule, Counter(trial.task for trial in order), scope)
        self._order = order
        self._episodes: dict[tuple[str, Trial], EpisodeRecord] = {}
        self._starts: dict[tuple[str, str], int] = {}

    def has(self, policy: str, trial: Trial) -> bool:
        return (policy, trial) in self._episodes

    def add(self, episode: EpisodeRecord) -> None:
        """One more episode, and all pairs that it completes."""
        self._require_own_start(episode)
        self._episodes[episode.policy, Trial(episode.task, episode.seed)] = episode
        for ours, theirs in self._complete():
            if ours.start != theirs.start:
                raise StageFailed(
                    f"{ours.task} with seed {ours.seed} began differently for the two "
                    "checkpoints, so they cannot be compared pair by pair.",
                    "See that the environment's initial state depends on the seed alone.",
                )
            outcome = PairOutcome(
                ours.task, ours.success, theirs.success, ours.progress, theirs.progress
            )
            self.judge.observe(outcome)

    def _complete(self) -> Iterator[tuple[EpisodeRecord, EpisodeRecord]]:
        """Pairs that are due and there."""
        while not self.judge.decided and len(self.judge.outcomes) < len(self._order):
            trial = self._order[len(self.judge.outcomes)]
            ours = self._episodes.get(("candidate", trial))
            theirs = self._episodes.get(("baseline", trial))
            if ours is None or theirs is None:
                return
            yield ours, theirs

    def _require_own_start(self, episode: EpisodeRecord) -> None:
        """Two seeds with one initial state are one trial, counted twice."""
        if not episode.start:
            return
        first = self._starts.setdefault((episode.task, episode.start), episode.seed)
        if first != episode.seed:
            raise StageFailed(
                f"{episode.task} begins the same with seeds {first} and {episode.seed}: "
                "repeated trials would count as evidence twice.",
                "Use an environment that heeds its seed, or declare its initial_states.",
            )
