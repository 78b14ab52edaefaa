"""The one next step of a run, derived from what has happened: pure functions."""

from typing import NamedTuple

from lefleet.loop.state import RunState
from lefleet.records import RunConfig


class RunStage(NamedTuple):
    """Carry out a stage."""

    cycle: int
    stage: str


class Decide(NamedTuple):
    """Judge the current candidate."""

    cycle: int


class EndRun(NamedTuple):
    """There is nothing more to do."""

    state: str
    reason: str


Step = RunStage | Decide | EndRun


def steps_of_cycle(
    config: RunConfig, cycle: int, *, has_gate: bool, has_blessed: bool
) -> tuple[str, ...]:
    """The stages of a cycle in their order, and `decide` where the decision is made.

    `has_blessed` says that a checkpoint is blessed after the decision.
    """
    gate = ("gate",) if has_gate else ()
    is_last = cycle + 1 >= config.budgets.cycles
    improves = config.improve.method != "none" and has_blessed and not is_last
    improve = ("improve",) if improves else ()
    return ("collect", "train", "evaluate", *gate, "decide", *improve)


def next_step(state: RunState) -> Step:
    """The next step of a run, derived from what is committed: a pure function."""
    if state.stop_requested:
        return EndRun("stopped", "by lefleet stop")
    cycle, cycles = state.current, state.config.budgets.cycles
    for step in steps_of_cycle(
        state.config,
        cycle.index,
        has_gate=state.has_gate(cycle.index),
        has_blessed=state.blessed() is not None,
    ):
        if step == "decide":
            if cycle.decision is None:
                return Decide(cycle.index)
            if cycle.decision.decision == "stop":
                return EndRun("finished", cycle.decision.why)
        elif step not in cycle.records and step not in cycle.skipped:
            return RunStage(cycle.index, step)
    if cycle.index + 1 >= cycles:
        return EndRun("finished", f"all {cycles} cycles are done")
    return RunStage(cycle.index + 1, "collect")
