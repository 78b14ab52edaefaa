"""Pairs of episodes to a verdict: their order, fixed before the first one runs, and the gates."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lefleet.errors import StageFailed
from lefleet.records import (
    CompareRequest,
    ComparisonRecord,
    EpisodeRecord,
    GateResult,
    TaskPairs,
)
from lefleet.records.evaluate import Ended, Verdict
from lefleet.records.fields import Scope
from lefleet.stages.evaluate import rate_of
from lefleet.stats import Gate, GateRule, Pair, fixed_size, needed_pairs, possible_pairs
from lefleet.stats.gate import State

_POWER = 0.8
"""Of the test of fixed size that the number of pairs is compared with."""


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


def gate_order(request: CompareRequest, tasks: Sequence[str]) -> list[Trial]:
    """The pairs of a comparison of these tasks, in the order of judging."""
    pairs = possible_pairs(request.max_pairs, request.initial_states, len(tasks))
    return pair_order(tasks, request.seed, pairs)


class PairOutcome(NamedTuple):
    """One pair: what both did once."""

    task: str
    candidate: bool
    """Success."""
    baseline: bool
    candidate_progress: float
    baseline_progress: float

    @property
    def pair(self) -> Pair:
        return Pair(
            int(self.candidate) - int(self.baseline),
            self.candidate_progress - self.baseline_progress,
        )


def without_futility(rule: GateRule) -> GateRule:
    """The same rule, for pairs that cost nothing more: it never gives up."""
    return replace(rule, futility_below=0.0)


class Judge:
    """Judges pairs one after the other, all together and each task by itself.

    The gate of a task runs at its share of the levels, so that among all tasks the chance to call
    one worse that is not stays below alpha_worse. Where no task may become worse, "better" over all
    tasks is not the end: the remaining pairs are needed to look at each of them.
    """

    def __init__(
        self, rule: GateRule, pairs_by_task: Mapping[str, int], scope: Scope = "pooled"
    ) -> None:
        self.gate = Gate.start(rule)
        self.outcomes: list[PairOutcome] = []
        self.scope = scope
        tasks = len(pairs_by_task)
        of_task = replace(
            without_futility(rule),
            alpha_better=rule.alpha_better / tasks,
            alpha_worse=rule.alpha_worse / tasks,
        )
        self._of_task = {
            task: Gate.start(replace(of_task, max_pairs=pairs))
            for task, pairs in pairs_by_task.items()
        }

    @property
    def decided(self) -> bool:
        if self.scope == "pooled" or self.gate.state != "better":
            return self.gate.decided
        return bool(self.worse_tasks()) or len(self.outcomes) == self.gate.rule.max_pairs

    def observe(self, outcome: PairOutcome) -> None:
        self.outcomes.append(outcome)
        self.gate = self.gate.observe((outcome.pair,))
        self._of_task[outcome.task] = self._of_task[outcome.task].observe((outcome.pair,))

    def worse_tasks(self) -> tuple[str, ...]:
        return tuple(task for task, gate in self._of_task.items() if gate.state == "worse")


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
                    "Use an environment whose initial state depends on the seed alone.",
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
                "Use an environment that uses its seed, or declare its initial_states.",
            )


class ComparisonSource(NamedTuple):
    """What was compared, and where the outcomes are."""

    candidate: str
    """Digest, or a name where there is none."""
    baseline: str
    candidate_path: str
    baseline_path: str
    first_seed: int
    episodes: int
    episodes_file: str
    note: str
    tasks: tuple[str, ...] = ()


def comparison(judge: Judge, source: ComparisonSource) -> ComparisonRecord:
    """The record of what the judge found."""
    by_task: dict[str, list[PairOutcome]] = defaultdict(list)
    for outcome in judge.outcomes:
        by_task[outcome.task].append(outcome)
    result = _result(judge)
    return ComparisonRecord(
        gate=result,
        metric=judge.gate.rule.metric,
        scope=judge.scope,
        per_task={task: _task(outcomes) for task, outcomes in by_task.items()},
        looks=judge.gate.looks,
        needed_pairs=_needed_pairs(judge.gate) if result.verdict == "inconclusive" else None,
        **source._asdict(),
    )


def _result(judge: Judge) -> GateResult:
    gate, rule, last = judge.gate, judge.gate.rule, judge.gate.last_look
    worse_tasks = judge.worse_tasks()
    verdict, ended = _conclude(
        gate.state, is_vetoed=judge.scope == "per_task" and worse_tasks != ()
    )
    return GateResult(
        verdict=verdict,
        ended=ended,
        pairs=gate.pairs,
        wins=gate.wins,
        losses=gate.losses,
        e_value=e_value(gate.better.log_e),
        e_worse=e_value(gate.worse.log_e),
        p_value=last.p_value,
        p_worse=last.p_worse,
        difference=gate.difference,
        interval=last.interval,
        alpha_better=rule.alpha_better,
        alpha_worse=rule.alpha_worse,
        min_effect=rule.min_effect,
        max_pairs=rule.max_pairs,
        fixed_pairs=_fixed_pairs(gate),
        baseline_rate=rule.baseline_rate,
        worse_tasks=worse_tasks,
    )


def _conclude(state: State, *, is_vetoed: bool) -> tuple[Verdict, Ended]:
    """A gate's end in the words of a decision."""
    match state:
        case "better" if is_vetoed:
            return "inconclusive", "vetoed"
        case "better" | "worse" as proven:
            return proven, proven
        case "futile" | "exhausted" as unproven:
            return "inconclusive", unproven
        case _:
            return "inconclusive", "open"


def e_value(log_e: float) -> float:
    """From its logarithm, kept within a float."""
    return math.exp(min(log_e, 700.0))


def _needed_pairs(gate: Gate) -> int | None:
    if gate.difference == 0.0:
        return None
    rule = gate.rule
    alpha = rule.alpha_better if gate.difference > 0 else rule.alpha_worse
    return needed_pairs(alpha, gate.difference, gate.squares / gate.pairs, rule.metric)


def _fixed_pairs(gate: Gate) -> int | None:
    rule = gate.rule
    if rule.metric != "success":
        return None
    differing = (gate.wins + gate.losses + 1) / (gate.pairs + 2)
    return fixed_size(rule.alpha_better, _POWER, rule.min_effect, max(differing, rule.min_effect))


def _task(outcomes: list[PairOutcome]) -> TaskPairs:
    return TaskPairs(
        pairs=len(outcomes),
        wins=sum(one.candidate > one.baseline for one in outcomes),
        losses=sum(one.candidate < one.baseline for one in outcomes),
        candidate=rate_of([one.candidate for one in outcomes]),
        baseline=rate_of([one.baseline for one in outcomes]),
    )
