"""What the statistics teach, in plain sentences: pure functions over comparisons.

A lesson is what comparisons of the same change say together. Differences of single tasks come from
the fixed blocks. Their p-values are exact but stand for themselves: of many lessons some will look
like more than they are. Only a gate adjusts for that, and only it decides anything.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lefleet.knowledge.comparisons import Comparison
from lefleet.knowledge.facts import ALL, Measurement
from lefleet.knowledge.front_matter import PageSource, PageStatus
from lefleet.knowledge.markup import chance, clean, counted, interval, listed, percent, slug
from lefleet.records import ComparisonRecord

CONTRADICTED = "Contradicted"
"""First word of a sentence about evidence against a lesson."""
MADE = {"correct": "corrections", "harvest": "harvested episodes"}


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What comparisons of one change say together."""

    id: str
    status: PageStatus
    tasks: tuple[str, ...]
    headline: str
    """What changed, and what the rates were, plain text."""
    detail: str
    """The rest of that sentence: the evidence, and what it cannot say."""
    further: tuple[str, ...]
    """What other comparisons say, one sentence each."""
    comparisons: tuple[Comparison, ...]
    """Those that it tells of, oldest first; at least one."""

    @property
    def text(self) -> str:
        return " ".join((self.headline + self.detail, *self.further))

    @property
    def provenance(self) -> tuple[PageSource, ...]:
        measured = [one for pair in self.comparisons for one in (pair.before, pair.after)]
        return sources(measured)

    @property
    def order(self) -> int:
        return self.comparisons[0].order


def sources(measured: Iterable[Measurement]) -> tuple[PageSource, ...]:
    """Each cycle once, in the order of the ledger."""
    found = {(one.run, one.cycle): one.events for one in measured}
    rows = sorted(found.items(), key=lambda item: item[1])
    return tuple(PageSource(run=run, cycle=n, events=events) for (run, n), events in rows)


def lessons(found: Sequence[Comparison]) -> list[Lesson]:
    """One for each change that was tried, in the order in which it was first tried."""
    groups: dict[tuple[object, ...], list[Comparison]] = {}
    kinds: dict[tuple[object, ...], list[Comparison]] = {}
    for one in found:
        groups.setdefault(one.key, []).append(one)
        kinds.setdefault(one.kind, []).append(one)
    return [_lesson(own, kinds[own[0].kind]) for own in groups.values()]


def _lesson(own: list[Comparison], alike: Sequence[Comparison]) -> Lesson:
    """Of comparisons of the same change; `alike` are those of the same kind in any range."""
    first = own[0]
    shown = next((one for one in own if one.direction), None)
    again: list[Comparison] = []
    against: list[Comparison] = []
    if shown is not None:
        related = [one for one in alike if one.overlaps(shown)]
        same = [one for one in related if one.direction == shown.direction]
        again = [one for one in same if one.is_independent_of(shown)]
        opposite = [one for one in related if one.direction == -shown.direction]
        against = [one for one in opposite if one.order > shown.order]
    told = list({id(one): one for one in (first, *against, *again, *own)}.values())
    spelled = sorted(told[1:_MOST], key=lambda one: one.order)
    more = len(told) - 1 - len(spelled)
    return Lesson(
        id=_id(first),
        status="contradicted" if against else "replicated" if again else "observed-once",
        tasks=first.after.tasks,
        headline=headline(first),
        detail=detail(first),
        further=(
            *(_further(one, shown) for one in spelled),
            *((f"Also {counted(more, 'further comparison')}.",) if more else ()),
        ),
        comparisons=tuple(sorted(told, key=lambda one: one.order)),
    )


_MOST = 5
"""Comparisons that a lesson spells out; those that contradict it come first."""


def _further(one: Comparison, shown: Comparison | None) -> str:
    word = "Also"
    if shown is not None and one.direction == -shown.direction:
        word = CONTRADICTED
    elif shown is not None and one.direction and one.is_independent_of(shown):
        word = "Replicated"
    where = f"in run {clean(one.after.run)}, cycle {one.after.cycle} (seed {one.seed})"
    return f"{word} {where}: {headline(one)}, {_episodes(one)}; {evidence(one)}."


def _id(one: Comparison) -> str:
    """Readable, and different for different changes."""
    subject = slug(one.after.tasks[0]) if len(one.after.tasks) == 1 else "all"
    what = "demonstrations" if "demonstrations" in one.changes else "steps"
    mark = hashlib.sha256(repr(one.key).encode()).hexdigest()[:6]
    return f"{subject}-{slug(one.after.policy)}-{one.span[0]}-to-{one.span[1]}-{what}-{mark}"


def headline(one: Comparison) -> str:
    """What changed, and the rates."""
    old, new = one.before.rate, one.after.rate
    return f"{what_changed(one)}: {percent(old.rate)} → {percent(new.rate)}"


def detail(one: Comparison) -> str:
    """What stands behind the headline: episodes, intervals, evidence, and what it cannot say."""
    limits = f"{interval(one.before.rate.interval)} and {interval(one.after.rate.interval)}"
    text = f", {_episodes(one)}, 95 % intervals {limits} %; {evidence(one)}."
    return f"{text} {_together(one)}" if len(one.changes) > 1 else text


def _episodes(one: Comparison) -> str:
    old, new = one.before.rate.episodes, one.after.rate.episodes
    number = f"{new} episodes each" if old == new else f"{old} and {new} episodes"
    return f"{number} {'on the same seeds' if one.pairs else 'on different seeds'}"


def what_changed(one: Comparison) -> str:
    """The first thing that did; others are said behind."""
    before, after = one.before, one.after
    policy = clean(after.policy)
    if "policy" in one.changes:
        return f"{clean(before.policy)} → {policy}, in {one.subject}"
    if "demonstrations" in one.changes:
        numbers = f"{_number(before.demonstrations)} → {_number(after.demonstrations)}"
        return f"{numbers} demonstrations of {one.subject} ({policy})"
    if "other data" in one.changes:
        return f"{listed(_made(one))} of {one.subject} ({policy})"
    if "training" in one.changes:
        return f"{before.steps} → {after.steps} training steps in {one.subject} ({policy})"
    return f"another training with the same data of {one.subject} ({policy})"


def evidence(one: Comparison) -> str:
    """How strong it is: of the tasks themselves, and of the gate over all tasks."""
    gate = one.gate
    if gate is not None and one.is_whole:
        return gate_words(gate)
    how = f"{one.pairs[0]} won, {one.pairs[1]} lost; " if one.pairs else ""
    if one.gate and one.after.tasks[0] in one.gate.gate.worse_tasks:
        said = "worse, as the gate has shown"
    elif one.direction:
        said = f"{'better' if one.direction > 0 else 'worse'}, more than by chance"
    else:
        is_equal = one.before.rate.rate == one.after.rate.rate
        said = "no difference" if is_equal else "this may be chance"
    said += f" ({how}exact p {chance(one.p_value)}, not adjusted)"
    return f"{said}; {gate_words(gate, one.after.tasks[0])}" if gate else said


def gate_words(record: ComparisonRecord, task: str = ALL) -> str:
    """The verdict of a gate, and what `task` contributed to it."""
    gate = record.gate
    over = "the gate over all tasks" if len(record.per_task) > 1 else "the gate"
    counts = f"{gate.wins} won, {gate.losses} lost of {gate.pairs} pairs"
    if task in record.per_task:
        own = record.per_task[task]
        counts += f", {own.wins} and {own.losses} of {own.pairs} in this task"
    if gate.ended == "vetoed":
        return f"{over}: better, but worse in {clean(listed(gate.worse_tasks))} ({counts})"
    if gate.verdict == "inconclusive":
        return f"{over}: no difference shown ({counts})"
    level = gate.alpha_better if gate.verdict == "better" else gate.alpha_worse
    how = " by progress" if record.metric == "progress" else ""
    return f"{over}: {gate.verdict}{how} at level {level:.2g} ({counts})"


def _made(one: Comparison) -> list[str]:
    methods = sorted({*one.before.made, *one.after.made})
    numbers = [(one.before.made.get(name, 0), one.after.made.get(name, 0)) for name in methods]
    return [
        f"{old} → {new} {MADE.get(name, name)}"
        for name, (old, new) in zip(methods, numbers, strict=True)
        if old != new
    ]


def _number(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)


def _together(one: Comparison) -> str:
    """What changed beside the first thing, and what therefore is not known."""
    before, after, rest = one.before, one.after, []
    if "policy" in one.changes and "demonstrations" in one.changes:
        numbers = f"{_number(before.demonstrations)} → {_number(after.demonstrations)}"
        rest.append(f"demonstrations ({numbers})")
    if "other data" in one.changes:
        rest.append(f"data that policies made ({listed(_made(one))})")
    if "training" in one.changes:
        rest.append(f"training steps ({before.steps} → {after.steps})")
    named = listed(rest)
    return (
        f"{named[0].upper()}{named[1:]} changed too, so it is not known what made the difference."
    )


def short(one: Comparison) -> str:
    """For a list of one task's comparisons, under the name of the task."""
    numbers = f"{percent(one.before.rate.rate)} → {percent(one.after.rate.rate)}"
    what = what_changed(one).partition(" of ")[0].partition(", in ")[0].partition(" in ")[0]
    return f"{what}: {numbers} (p {chance(one.p_value)})"
