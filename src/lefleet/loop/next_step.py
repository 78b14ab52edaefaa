"""State to the one thing to do next: a pure function."""

from typing import NamedTuple

from lefleet.loop.state import RunState


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


def next_step(state: RunState) -> Step:
    """The next step of a run, derived from what is committed."""
    if state.stop_requested:
        return EndRun("stopped", "a person asked for it")
    cycle = state.current
    gate = ["gate"] if state.has_baseline(cycle.index) else []
    stages = ["collect", "train", "evaluate", *gate]
    for stage in stages:
        if stage not in cycle.records:
            return RunStage(cycle.index, stage)
    if cycle.decision is None:
        return Decide(cycle.index)
    if cycle.decision.decision == "stop":
        return EndRun("finished", cycle.decision.why)
    if cycle.index + 1 >= state.config.budgets.cycles:
        return EndRun("finished", f"all {state.config.budgets.cycles} cycles are done")
    wants_data = state.config.improve.method != "none" and state.blessed() is not None
    if wants_data and "improve" not in cycle.records and "improve" not in cycle.skipped:
        return RunStage(cycle.index, "improve")
    return RunStage(cycle.index + 1, "collect")
