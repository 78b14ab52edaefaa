"""What past cycles did and what came of it, and the action that helped most: pure functions, and
the reading of it from the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from lefleet.errors import BadInput
from lefleet.ledger import Ledger
from lefleet.loop.requests import run_tasks
from lefleet.loop.state import CycleState, RunState, is_same, read_state, stored_config
from lefleet.records import ExpertGrowth, ProposedAction, Rate, RunConfig
from lefleet.records.border import Strict
from lefleet.records.evaluate import Verdict

PRIOR_FAILURES = 20
"""Failed episodes at the average success of all actions that every action is given to begin with:
those of one cycle of the demo, a third of whose 60 episodes fail."""
MOST_RUNS = 100
"""So many runs are read, the newest first."""


class PastCycle(Strict, frozen=True, kw_only=True):
    """The data that a cycle was the first to train on, and how its candidate compares with the
    checkpoint that was blessed before."""

    run: str
    cycle: int
    action: ProposedAction
    """Of the cycle before: the new demonstrations alone, or also data that its policy made."""
    made: int
    """Episodes that its policy made; 0 where it could make none."""
    demonstrations: int
    """New ones."""
    before: Rate
    """Success of the blessed checkpoint in its fixed block."""
    after: Rate
    """Success of the candidate."""
    verdict: Verdict | None
    """Of the gate between the two; None where there was none."""

    @property
    def change(self) -> float:
        return self.after.rate - self.before.rate

    @property
    def failures(self) -> float:
        """Episodes of the candidate's block that would have failed before."""
        return (1.0 - self.before.rate) * self.after.episodes

    @property
    def ended_failures(self) -> float:
        """How many fewer of them failed; below 0 where it were more."""
        return self.change * self.after.episodes


class Experience(NamedTuple):
    """What is known when a cycle is proposed."""

    past: Sequence[PastCycle] = ()
    """Of this run, of the one that it came from, and of others on the same tasks; oldest run
    first."""
    under_way: ProposedAction = "demonstrations"
    """What was done for the cycle that is proposed; its result is still to come."""


def read_experience(ledger: Ledger, run: str, state: RunState, cycle: int) -> Experience:
    """What the ledger knows when `cycle` of this run is proposed; nothing is read where the config
    names the action. A run that this lefleet cannot read is left out."""
    if state.config.improve.method != "auto":
        return Experience()
    rows = {row.id: row for row in ledger.runs()}
    states: dict[str, RunState] = {}
    for name in [*rows][::-1]:
        if name == run:
            states[name] = state
        elif len(states) < MOST_RUNS or (state.origin and name == state.origin.run):
            with suppress(BadInput):
                if is_alike(stored_config(rows[name]), state.config):
                    states[name] = read_state(ledger, rows[name])

    def origin_of(one: RunState) -> RunState | None:
        return states.get(one.origin.run) if one.origin else None

    past = [
        past_cycle
        for name, one in [*states.items()][::-1]
        for past_cycle in past_cycles(name, one, origin_of(one))
    ]
    return Experience(past, action_of(cycle_before(state, cycle, origin_of(state))))


def is_alike(one: RunConfig, other: RunConfig) -> bool:
    """Whether what helped in one run may help in the other: both collect demonstrations of the same
    tasks with the same cameras, and evaluate in the same environment."""
    return (
        isinstance(one.collect, ExpertGrowth)
        and isinstance(other.collect, ExpertGrowth)
        and set(one.collect.cameras) == set(other.collect.cameras)
        and one.evaluate.env == other.evaluate.env
        and set(run_tasks(one)) == set(run_tasks(other))
    )


def past_cycles(run: str, state: RunState, origin: RunState | None) -> Iterator[PastCycle]:
    """Every decided cycle that there was something to compare with. `origin` is the state of the
    run that this one came from, where that is known.

    A cycle on another rung of the ladder than its blessed checkpoint is left out: what changed
    there is the policy.
    """
    for cycle in state.cycles:
        blessed = state.blessed_after(cycle.index - 1)
        before = state.result_of(blessed.digest) if blessed else None
        rung = state.rung_of(blessed.digest) if blessed else None
        evaluation, decision = cycle.evaluation(), cycle.decision
        if before is None or rung is None or evaluation is None or decision is None:
            continue
        if not is_same(state.config.ladder[decision.rung], rung):
            continue
        source = cycle_before(state, cycle.index, origin)
        mix, dataset = source.mix() if source else None, cycle.dataset()
        yield PastCycle(
            run=run,
            cycle=cycle.index,
            action=action_of(source),
            made=sum(mix.added.values()) if mix else 0,
            demonstrations=sum(one.kept for one in dataset.tallies.values()) if dataset else 0,
            before=before.overall,
            after=evaluation.result.overall,
            verdict=decision.gate.verdict if decision.gate else None,
        )


def cycle_before(state: RunState, cycle: int, origin: RunState | None) -> CycleState | None:
    """The cycle whose end made data for `cycle`; that of another run for the first one."""
    if cycle:
        return state.cycles[cycle - 1]
    if origin is None or state.origin is None or state.origin.cycle >= len(origin.cycles):
        return None
    return origin.cycles[state.origin.cycle]


def action_of(cycle: CycleState | None) -> ProposedAction:
    """What a cycle did for the next one. An attempt that failed for good or made nothing counts: it
    should not be tried again for ever."""
    if cycle is None:
        return "demonstrations"
    if (mix := cycle.mix()) is not None:
        return "harvest" if mix.method == "harvest" else "corrections"
    was_tried = "improve" in cycle.skipped and cycle.proposal is not None
    return cycle.proposal.action if was_tried and cycle.proposal else "demonstrations"


class ActionChoice(NamedTuple):
    """What the blessed policy does at a cycle's end."""

    action: ProposedAction
    why: str
    """With the numbers that it rests on."""


def choose_action(experience: Experience, possible: Sequence[ProposedAction]) -> ActionChoice:
    """An action of `possible` that was never tried, else the one that is estimated to end the
    largest share of failures; of equal ones the first. What is under way counts as tried."""
    if len(possible) == 1:
        return ActionChoice(possible[0], "nothing else is possible")
    past = experience.past
    tried = {experience.under_way, *(one.action for one in past)}
    for action in possible:
        if action not in tried:
            return ActionChoice(action, "not tried on these tasks yet")
    # Rounded, so that equal estimates are equal whatever they were added up from.
    gains = {action: round(estimated_gain(action, past), 6) for action in possible}
    best = max(possible, key=lambda action: gains[action])
    others = ", ".join(f"{action} {gains[action]:.0%}" for action in possible if action != best)
    return ActionChoice(
        best, f"{_result(best, past)}, ends about {gains[best]:.0%} of failures; {others}"
    )


def estimated_gain(action: ProposedAction, history: Sequence[PastCycle]) -> float:
    """The share of failures that a cycle with this action ends.

    Failures that ended, of all that there were, over its cycles together: so a gain from 90 to 95 %
    counts as much as one from 40 to 70 %, and a cycle with few episodes or few failures left says
    little. To them come PRIOR_FAILURES failures that ended as often as over the cycles of all
    actions: one lucky or unlucky cycle does not decide for ever, for as further cycles disagree
    with it the estimates cross.
    """
    every = sum(one.failures for one in history)
    average = sum(one.ended_failures for one in history) / every if every else 0.0
    own = [one for one in history if one.action == action]
    ended = sum(one.ended_failures for one in own) + PRIOR_FAILURES * average
    return ended / (sum(one.failures for one in own) + PRIOR_FAILURES)


def _result(action: ProposedAction, past: Sequence[PastCycle]) -> str:
    """What came of its cycles: +9 points per cycle with 30 new episodes, better in 1 of 2 gates of
    demo."""
    own = [one for one in past if one.action == action]
    if not own:
        return "no result yet"
    points = 100 * sum(one.change for one in own) / len(own)
    count = sum(one.demonstrations + one.made for one in own)
    verdicts = [one.verdict for one in own if one.verdict]
    names = list(dict.fromkeys(one.run for one in own))
    runs = " and ".join(names) if len(names) <= 2 else f"{names[-1]} and {len(names) - 1} others"
    gates = f"better in {verdicts.count('better')} of {len(verdicts)} gates of {runs}"
    return f"{points:+.0f} points per cycle with {count} new episodes, {gates}"
