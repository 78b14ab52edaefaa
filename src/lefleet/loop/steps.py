"""The one next step of a run, derived from what has happened: pure functions."""

from dataclasses import replace
from typing import NamedTuple

from lefleet.ledger import ApprovalRow
from lefleet.loop.state import CycleState, RunState
from lefleet.records import RunConfig


class RunStage(NamedTuple):
    """Carry out a stage."""

    cycle: int
    stage: str


class Propose(NamedTuple):
    """Settle what a cycle does."""

    cycle: int


class Decide(NamedTuple):
    """Judge the current candidate."""

    cycle: int


class AwaitAnswer(NamedTuple):
    """A person has been asked and has not answered."""

    approval: ApprovalRow


class EndRun(NamedTuple):
    """There is nothing more to do, or nothing before a person has answered."""

    state: str
    """That the run has from then on."""
    reason: str


Step = RunStage | Propose | Decide | AwaitAnswer | EndRun


def steps_of_cycle(
    config: RunConfig,
    cycle: int,
    *,
    has_gate: bool,
    has_blessed: bool,
    asks_model: bool,
    may_improve: bool,
) -> tuple[str, ...]:
    """The stages of a cycle in their order, and `settle` and `decide` where the proposal is
    settled and the decision is made.

    `has_blessed` says that a checkpoint is blessed after the decision, `may_improve` that the
    proposal asks for more than demonstrations.
    """
    ask = ("propose",) if asks_model else ()
    gate = ("gate",) if has_gate else ()
    is_last = cycle + 1 >= config.budgets.cycles
    improves = config.improve.method != "none" and may_improve and has_blessed and not is_last
    improve = ("improve",) if improves else ()
    return (*ask, "settle", "collect", "train", "evaluate", *gate, "decide", *improve)


def next_step(state: RunState) -> Step:
    """The next step of a run, derived from what is committed."""
    if state.stop_requested:
        return EndRun("stopped", "on request")
    if (approval := state.open_approval()) is not None:
        return AwaitAnswer(approval)
    cycle, cycles = state.current, state.config.budgets.cycles
    if (step := _step_of(state, cycle)) is not None:
        return step
    if cycle.index + 1 >= cycles:
        return EndRun("finished", f"all {cycles} cycles are done")
    begins = cycle.index + 1
    return RunStage(begins, "propose") if state.asks_model() else Propose(begins)


def place_of(state: RunState) -> tuple[int, str]:
    """The cycle and the step of it that a run is at: the one that it takes next, or would take if
    it had not been stopped. `propose` stands for settling the proposal too."""
    match next_step(replace(state, stop_requested=False)):
        case RunStage(cycle, stage):
            return cycle, stage
        case Propose(cycle):
            return cycle, "propose"
        case Decide(cycle):
            return cycle, "decide"
        case AwaitAnswer(asked):
            return state.current.index, "decide" if asked.kind in ("promote", "escalate") else ""
        case EndRun():
            return state.current.index, ""


def _step_of(state: RunState, cycle: CycleState) -> Step | None:
    """What is to be done next in the current cycle; None where it is complete."""
    for step in steps_of_cycle(
        state.config,
        cycle.index,
        has_gate=state.has_gate(cycle.index),
        has_blessed=state.blessed() is not None,
        asks_model=state.asks_model(),
        may_improve=improves(cycle),
    ):
        if step == "settle":
            if cycle.proposal is None and "collect" not in cycle.records:
                return Propose(cycle.index)
        elif step == "decide":
            if cycle.decision is None:
                return Decide(cycle.index)
            if cycle.decision.decision == "stop":
                return EndRun("finished", cycle.decision.why)
        elif step == "propose":
            if cycle.proposal is None and not _is_done(cycle, step) and not cycle.records:
                return RunStage(cycle.index, step)
        elif not _is_done(cycle, step):
            return RunStage(cycle.index, step)
    return None


def _is_done(cycle: CycleState, stage: str) -> bool:
    return stage in cycle.records or stage in cycle.skipped


def improves(cycle: CycleState) -> bool:
    """Whether the cycle's proposal, if it has one, asks for data that the blessed policy makes."""
    return cycle.proposal is None or cycle.proposal.action != "demonstrations"
