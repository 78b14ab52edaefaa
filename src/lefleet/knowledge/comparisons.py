"""Two checkpoints in the same tasks: what differs between them, whether one is shown to be better,
and whether two that should be alike are not. Pure functions over facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from lefleet.knowledge.facts import ALL, CycleFacts, Measurement, RunFacts
from lefleet.knowledge.markup import chance, clean, counted, percent
from lefleet.records import ComparisonRecord
from lefleet.stats.exact_tests import paired_p, unpaired_p

LEVEL = 0.05
"""Of a comparison that counts as evidence for a lesson's status."""
_ALIKE = 0.01
"""Level at which results that should be alike are said to differ: many are looked at."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two measurements of the same tasks, and what differs between their checkpoints."""

    before: Measurement
    after: Measurement
    seed: int
    root: str
    """The run that this one started from, by way of others if need be; itself where none."""
    changes: tuple[str, ...]
    """Of demonstrations, other data, training and policy, those that differ."""
    span: tuple[int, int]
    """From and to: of the demonstrations where they differ, else of the training steps."""
    gate: ComparisonRecord | None
    """Of the cycle, over all of its tasks."""
    is_whole: bool
    """Whether these are all tasks of the run, so that the gate is about the same."""
    pairs: tuple[int, int] | None
    """Won and lost on the same seeds; None where the seeds differ."""
    p_value: float
    """Of the fixed blocks, not adjusted."""

    @property
    def subject(self) -> str:
        tasks = self.after.tasks
        return clean(tasks[0]) if len(tasks) == 1 else f"all {len(tasks)} tasks"

    @property
    def direction(self) -> int:
        """1 shown to be better, -1 shown to be worse, 0 neither. About all tasks the gate says it,
        about a single one of several only that it became worse."""
        if self.gate is not None and self.is_whole:
            return {"better": 1, "worse": -1}.get(self.gate.gate.verdict, 0)
        if self.gate is not None and self.after.tasks[0] in self.gate.gate.worse_tasks:
            return -1
        if self.p_value > LEVEL:
            return 0
        return 1 if self.after.rate.rate > self.before.rate.rate else -1

    @property
    def order(self) -> int:
        """Later evidence is larger."""
        return max(self.after.events, default=0)

    @property
    def key(self) -> tuple[object, ...]:
        """The same for comparisons of the same change."""
        return (*self.kind, self.span)

    @property
    def kind(self) -> tuple[object, ...]:
        """The same for changes of the same things, whatever the range."""
        after = self.after
        policies = (self.before.policy, after.policy)
        return (after.environment, tuple(sorted(after.tasks)), policies, self.changes)

    def is_independent_of(self, other: "Comparison") -> bool:
        """Another seed means other data, other trainings and other episodes; a run that started
        from the other one shares them all the same."""
        return self.seed != other.seed and self.root != other.root

    def overlaps(self, other: "Comparison") -> bool:
        """Whether a comparison of the same kind is about the same range."""
        (low, high), (from_, to) = sorted(self.span), sorted(other.span)
        return self.span == other.span or (low < to and from_ < high)


def comparisons(runs: Sequence[RunFacts]) -> list[Comparison]:
    """Of every decided cycle with what it was compared with, oldest first."""
    found = []
    for run in runs:
        for cycle in run.cycles:
            before = _reference(run, cycle, runs)
            for task, after in cycle.measured.items():
                earlier = before.measured.get(task) if before else None
                is_comparable = (
                    earlier is not None
                    and earlier.environment == after.environment
                    and set(earlier.tasks) == set(after.tasks)
                    # Of a single task, all tasks are the same measurement again.
                    and not (task == ALL and len(after.tasks) == 1)
                )
                if earlier and is_comparable:
                    found.append(_compared(run, cycle, earlier, after, runs))
    return sorted(found, key=lambda one: one.order)


def _reference(run: RunFacts, cycle: CycleFacts, runs: Sequence[RunFacts]) -> CycleFacts | None:
    """The cycle of the gate's baseline, in whichever run; without a gate the cycle before."""
    gate = cycle.gate()
    if gate is None:
        earlier = [one for one in run.cycles if one.index < cycle.index and one.measured]
        return earlier[-1] if earlier else None
    found = (one.of_checkpoint(gate.baseline) for one in (run, *runs))
    return next((one for one in found if one is not None), None)


def _compared(
    run: RunFacts,
    cycle: CycleFacts,
    before: Measurement,
    after: Measurement,
    runs: Sequence[RunFacts],
) -> Comparison:
    changes = {
        "demonstrations": before.demonstrations != after.demonstrations,
        "other data": before.made != after.made,
        "training": before.steps != after.steps,
        "policy": before.policy != after.policy,
    }
    span = (before.demonstrations or 0, after.demonstrations or 0)
    if not changes["demonstrations"]:
        span = (before.steps, after.steps)
    pairs = None
    if before.outcomes and before.outcomes.keys() == after.outcomes.keys():
        both = [(before.outcomes[one], after.outcomes[one]) for one in after.outcomes]
        pairs = (both.count((False, True)), both.count((True, False)))
    old, new = before.rate, after.rate
    p_value = (
        paired_p(*pairs)
        if pairs
        else unpaired_p(new.successes, new.episodes, old.successes, old.episodes)
    )
    return Comparison(
        before=before,
        after=after,
        seed=run.config.seed,
        root=_root(run, runs),
        changes=tuple(name for name, differs in changes.items() if differs),
        span=span,
        gate=cycle.gate(),
        is_whole=after.tasks == cycle.measured[ALL].tasks,
        pairs=pairs,
        p_value=p_value,
    )


def _root(run: RunFacts, runs: Sequence[RunFacts]) -> str:
    by_name = {one.run: one for one in runs}
    at, seen = run, {run.run}
    while at.origin and at.origin.run not in seen:
        seen.add(at.origin.run)
        if at.origin.run not in by_name:
            return at.origin.run
        at = by_name[at.origin.run]
    return at.run


class Disagreement(NamedTuple):
    """Two runs that did the same, with results that chance does not explain."""

    low: Measurement
    high: Measurement
    p_value: float

    @property
    def text(self) -> str:
        low, high = self.low, self.high
        number = low.demonstrations
        data = "the same data" if number is None else counted(number, "demonstration")
        return (
            f"With {data} of {clean(low.tasks[0])} and {low.steps} training steps of "
            f"{clean(low.policy)}, run {clean(low.run)} reached {percent(low.rate.rate)} and run "
            f"{clean(high.run)} {percent(high.rate.rate)}: more than chance explains (Fisher's "
            f"exact p {chance(self.p_value)}, not adjusted)."
        )


def disagreements(measured: Sequence[Measurement]) -> list[Disagreement]:
    """Of one task: in each group of runs with equal data, training and policy, the lowest and the
    highest result, where they differ by more than chance."""

    def setting(one: Measurement) -> tuple[str, ...]:
        made = sorted(one.made.items())
        return (one.environment, one.policy, f"{one.demonstrations} {made} {one.steps}")

    found = []
    for _, group in groupby(sorted(measured, key=setting), setting):
        newest = {one.run: one for one in sorted(group, key=lambda one: one.events)}
        ordered = sorted(newest.values(), key=lambda one: one.rate.rate)
        low, high = ordered[0].rate, ordered[-1].rate
        p_value = unpaired_p(low.successes, low.episodes, high.successes, high.episodes)
        if p_value < _ALIKE:
            found.append(Disagreement(ordered[0], ordered[-1], p_value))
    return found
