"""What is known about a candidate, put before `decide`."""

from lefleet.loop.decide import CandidateEvidence, History, decide
from lefleet.loop.state import CycleState, RunState
from lefleet.records import Decision, EvaluationRecord


def make_decision(state: RunState, cycle: int) -> Decision:
    """The decision about the candidate of `cycle`, whose stages are all committed."""
    current = state.cycles[cycle]
    evaluation = _required(current.evaluation())
    gate = current.gate()
    evidence = CandidateEvidence(
        cycle=cycle,
        rung=state.rung(),
        candidate=evaluation.result.digest,
        rate=evaluation.result.overall.rate,
        gate=gate.gate if gate else None,
        gate_number=len(state.gates_before(cycle)) + 1 if gate else 0,
        diagnosis=diagnose(current),
    )
    blessed = state.blessed()
    history = History(
        decisions=[one.decision for one in state.cycles if one.decision is not None],
        blessed=blessed.digest if blessed else "",
        blessed_rate=_rate_of(state, blessed.digest if blessed else ""),
        rungs=len(state.config.ladder),
    )
    return decide(evidence, history, state.config.decide)


def diagnose(cycle: CycleState) -> tuple[str, ...]:
    """What to look at when nothing works: data, loss, progress, horizon."""
    found = []
    if (dataset := cycle.dataset()) is not None:
        least = min(dataset.tasks.values(), default=0)
        found.append(f"data: at least {least} episodes for each of {len(dataset.tasks)} tasks")
    if (checkpoint := cycle.checkpoint()) is not None and checkpoint.curve:
        first, last = checkpoint.curve[0].loss, checkpoint.curve[-1].loss
        found.append(f"loss: {first} at first, {last} at the end")
    if (evaluation := cycle.evaluation()) is not None:
        result = evaluation.result
        found.append(
            f"progress: {result.mean_progress:.2f} of 1 on average, "
            f"episodes ended after {result.mean_length:.0f} steps"
        )
    return tuple(found)


def _rate_of(state: RunState, digest: str) -> float:
    """Success of a checkpoint in its own fixed block."""
    for cycle in state.cycles:
        evaluation = cycle.evaluation()
        if evaluation is not None and evaluation.result.digest == digest:
            return evaluation.result.overall.rate
    return 0.0


def _required(evaluation: EvaluationRecord | None) -> EvaluationRecord:
    if evaluation is None:
        raise ValueError("a decision needs an evaluation")
    return evaluation
