"""What a cycle should do: how many demonstrations of which task, and what its blessed policy makes
for the next one: pure functions.

A proposal follows the growth schedule of the config. It is the one that holds where no language
model is asked or none gives a usable answer, and its limits hold for theirs too.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from lefleet.loop.history import ActionChoice, Experience, choose_action
from lefleet.loop.requests import PER_CYCLE, new_demonstrations, run_tasks, selection
from lefleet.loop.state import RunState
from lefleet.records import (
    DatasetSource,
    ExpertGrowth,
    Proposal,
    ProposalLimits,
    ProposedAction,
    Rate,
    RunConfig,
)
from lefleet.stages.collect import max_attempts

HARVEST_FLOOR = 0.2
"""Success from which on a harvest is worth a try: it attempts five times the episodes that it wants
to keep."""

MOST_PER_TASK = (PER_CYCLE - max_attempts(0)) // (max_attempts(1) - max_attempts(0))
"""Demonstrations of one task for whose attempts a cycle has seeds."""

_FIXED: dict[str, ProposedAction] = {
    "none": "demonstrations",
    "correct": "corrections",
    "harvest": "harvest",
}
_LISTED = 6
"""Tasks that a line names one by one."""


class TaskEvidence(NamedTuple):
    """What is known of one task."""

    task: str
    rate: Rate | None
    """Success with its exact 95 % interval; None where the task was never evaluated."""

    @property
    def weight(self) -> float:
        """The upper end of the exact interval of the failure rate.

        It is the failure rate that the episodes seen so far do not rule out. So it is large for a
        task that fails often, and also for one of which few episodes were seen, and falls to the
        failure rate itself as they become many. It is never 0: a task that succeeded in all of 20
        episodes may still fail in one of six. Without any episode it is 1.
        """
        return 1.0 - self.rate.interval[0] if self.rate else 1.0


def split_uniform(total: int, tasks: Sequence[str]) -> dict[str, int]:
    """As many for each task; what cannot be divided goes to the first ones."""
    return _rounded({task: Fraction(total, len(tasks)) for task in tasks}, total)


def split_by_failure(total: int, evidence: Sequence[TaskEvidence], floor: float) -> dict[str, int]:
    """`total` demonstrations in proportion to the weights of the tasks, none below its floor.

    Tasks whose share would be below the floor get the floor, and the others share the rest in
    proportion. Shares are rounded by largest remainder; of equal ones the first is rounded up. So
    equal weights give the uniform split, and a task with a larger weight never gets fewer.
    """
    least = least_per_task(total, len(evidence), floor)
    # Exact, so that the sum is `total` and equal weights stay equal.
    weights = {one.task: Fraction(max(one.weight, 0.0)) for one in evidence}
    shares = {task: Fraction(least) for task in weights}
    above = dict(weights)
    while above:
        rest = total - least * (len(weights) - len(above))
        proportional = _proportional(rest, above)
        low = [task for task, share in proportional.items() if share < least]
        if not low:
            shares |= proportional
            break
        above = {task: weight for task, weight in above.items() if task not in low}
    return _rounded(shares, total)


def least_per_task(total: int, tasks: int, floor: float) -> int:
    """The floor: the share `floor` of a uniform split, at least 1, as far as `total` suffices."""
    uniform = Fraction(total, tasks)
    # The share as it was written: 0.3 is 3/10, not the nearest binary number.
    return min(max(1, math.ceil(uniform * Fraction(str(floor)))), total // tasks)


def _proportional(total: int, weights: Mapping[str, Fraction]) -> dict[str, Fraction]:
    whole = sum(weights.values())
    if not whole:
        return dict.fromkeys(weights, Fraction(total, len(weights)))
    return {task: total * weight / whole for task, weight in weights.items()}


def _rounded(shares: Mapping[str, Fraction], total: int) -> dict[str, int]:
    """Whole numbers of the sum `total`."""
    counts = {task: math.floor(share) for task, share in shares.items()}
    by_remainder = sorted(shares, key=lambda task: counts[task] - shares[task])
    for task in by_remainder[: total - sum(counts.values())]:
        counts[task] += 1
    return counts


def task_evidence(state: RunState) -> list[TaskEvidence]:
    """What the fixed block of the blessed checkpoint says of every task, or that of the newest one
    where none is blessed."""
    blessed = state.blessed()
    result = state.result_of(blessed.digest) if blessed else None
    newest = [one.result for cycle in state.cycles if (one := cycle.evaluation())]
    if result is None and newest:
        result = newest[-1]
    rates = result.per_task if result else {}
    return [TaskEvidence(task, rates.get(task)) for task in run_tasks(state.config)]


def possible_actions(state: RunState) -> tuple[ProposedAction, ...]:
    """What the coming cycle may do for the next one, in the order in which it is tried.

    One, where the config names it. With `auto` the blessed policy must fail at all for corrections,
    and succeed in HARVEST_FLOOR of its episodes for a harvest.
    """
    method = state.config.improve.method
    if method != "auto":
        return (_FIXED[method],)
    blessed = state.blessed()
    result = state.result_of(blessed.digest) if blessed else None
    possible: list[ProposedAction] = ["demonstrations"]
    if result is not None and result.overall.successes < result.overall.episodes:
        possible.append("corrections")
    if result is not None and result.overall.rate >= HARVEST_FLOOR:
        possible.append("harvest")
    return tuple(possible)


def limits(state: RunState, cycle: int) -> ProposalLimits:
    """What a proposal for `cycle` may vary."""
    total = floor = 0
    tasks: tuple[str, ...] = ()
    if isinstance(state.config.collect, ExpertGrowth):
        tasks = run_tasks(state.config)
        total = new_demonstrations(state.config.collect, cycle) * len(tasks)
        floor = least_per_task(total, len(tasks), state.config.propose.floor)
    return ProposalLimits(
        episodes=total,
        floor=floor,
        ceiling=min(total - floor * max(0, len(tasks) - 1), MOST_PER_TASK),
        tasks=tasks,
        actions=possible_actions(state),
    )


def propose(
    state: RunState, cycle: int, experience: Experience, most: float | None = None
) -> Proposal:
    """The deterministic proposal for `cycle`, which has not collected yet. What is known of past
    cycles matters only with `improve.method: auto`. `most` is what the run's rules allow of one
    task."""
    allowed = limits(state, cycle)
    choice = choose_action(experience, allowed.actions)
    episodes, why = _demonstrations(state, cycle, allowed, most)
    if cycle + 1 < state.config.budgets.cycles:
        why += _then(state.config, choice, has_choice=len(allowed.actions) > 1)
    return Proposal(
        cycle=cycle, action=choice.action, episodes=episodes, source="schedule", why=why
    )


def _demonstrations(
    state: RunState, cycle: int, allowed: ProposalLimits, most: float | None
) -> tuple[dict[str, int], str]:
    """New demonstrations by task, and the same in words."""
    source, plan = state.config.collect, state.config.propose
    if isinstance(source, DatasetSource):
        return {}, _selected(state.config, source, cycle)
    evidence = task_evidence(state)
    total, tasks = allowed.episodes, allowed.tasks
    if len(tasks) == 1:
        return {tasks[0]: total}, f"{total} new demonstrations of {tasks[0]}"
    by_failure = split_by_failure(total, evidence, plan.floor)
    reason = ""
    if plan.split == "failure" and not any(one.rate for one in evidence):
        reason = ", as none was evaluated yet"
    elif plan.split == "failure" and max(by_failure.values()) > allowed.ceiling:
        reason = f", as there are only seeds for {allowed.ceiling} of one task"
    elif plan.split == "failure" and most is not None and max(by_failure.values()) > most:
        reason = f", as the constitution allows {most:g} of one task"
    if plan.split == "uniform" or reason:
        said = f"{total} new demonstrations, {total // len(tasks)} of each task{reason}"
        return split_uniform(total, tasks), said
    return by_failure, f"{total} new demonstrations: {_by_task(by_failure, evidence)}"


def _selected(config: RunConfig, source: DatasetSource, cycle: int) -> str:
    """What the cycle takes of an existing dataset, in words."""
    name = source.repo_id or source.root
    if not isinstance(source.episodes_per_task, tuple):
        return f"the episodes of {name}, the same in every cycle"
    number = selection(config, source, cycle).episodes_per_task
    if not cycle:
        return f"{number} episodes of each task of {name}"
    more = number - selection(config, source, cycle - 1).episodes_per_task
    return f"{number} episodes of each task of {name}: those of the cycle before and {more} more"


def _by_task(episodes: Mapping[str, int], evidence: Sequence[TaskEvidence]) -> str:
    """Every task with its number, or those with the most where there are many."""
    shown = [one.task for one in evidence]
    if len(shown) > _LISTED:
        shown = sorted(shown, key=lambda task: -episodes[task])[: _LISTED - 1]
    rates = {one.task: one.rate for one in evidence}
    parts = []
    for task in shown:
        rate = rates[task]
        known = f"fails {1.0 - rate.rate:.0%}" if rate else "not evaluated"
        parts.append(f"{task} {episodes[task]} ({known})")
    rest = [number for task, number in episodes.items() if task not in shown]
    if rest:
        parts.append(f"{min(rest)} to {max(rest)} of each of {len(rest)} others")
    return ", ".join(parts)


def _then(config: RunConfig, choice: ActionChoice, *, has_choice: bool) -> str:
    """What the blessed policy makes at the cycle's end, and why."""
    if config.improve.method == "none":
        return ""
    if config.improve.method != "auto":
        return f"; then {choice.action}"
    if not has_choice:
        return "; then nothing that a policy makes, as none is blessed yet"
    if choice.action == "demonstrations":
        return f"; then nothing that the policy makes (demonstrations: {choice.why})"
    return f"; then {choice.action} ({choice.why})"
