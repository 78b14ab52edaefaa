"""The decision about a cycle's candidate, from its evidence and the history: pure functions, but
for the diagnosis of a candidate that does not work, which reads the cycle's files."""

from collections.abc import Sequence
from typing import NamedTuple

from lefleet.loop.diagnosis import diagnose
from lefleet.loop.state import RunState, Shortage
from lefleet.records import DecidePlan, Decision, EvaluationRecord, GateLevel, GateResult

UNDECIDED = ("futile", "exhausted")


class CandidateEvidence(NamedTuple):
    """What is known about a cycle's candidate."""

    cycle: int
    rung: int
    candidate: str
    """Digest."""
    rate: float
    """Success in the fixed block."""
    gate: GateResult | None
    """None where there is no baseline to compare with, or no room for an improvement over it."""
    gate_number: int = 0
    level: GateLevel | None = None
    """Of the gate, and None where that is."""
    shortage: Shortage | None = None
    """Of pairs, where there is a baseline and no room for an improvement over it."""
    initial_states: int = 0
    """Of each task, where the gates of the run share a finite list of them."""
    diagnosis: tuple[str, ...] = ()


class History(NamedTuple):
    """What happened before."""

    run: str
    """Name of the run, for commands to copy."""
    decisions: Sequence[Decision]
    blessed: str
    """Digest of the blessed checkpoint, empty when there is none."""
    blessed_rate: float
    """Its success in the fixed block."""
    rungs: Sequence[str]
    """Names of the rungs of the policy ladder."""


def make_decision(state: RunState, cycle: int) -> Decision:
    """The decision about the candidate of `cycle`, whose stages are all committed."""
    current = state.cycles[cycle]
    evaluation = _required(current.evaluation())
    gate, blessed = current.gate(), state.blessed()
    rate = evaluation.result.overall.rate
    is_useless = blessed is None and rate <= state.config.decide.baseline_floor
    evidence = CandidateEvidence(
        cycle=cycle,
        rung=state.rung(),
        candidate=evaluation.result.digest,
        rate=rate,
        gate=gate.gate if gate else None,
        gate_number=len(state.gates_before(cycle)) + 1 if gate else 0,
        level=state.gate_level(cycle) if gate else None,
        shortage=None if gate else state.shortage(),
        initial_states=state.config.evaluate.initial_states,
        diagnosis=diagnose(state, current) if is_useless else (),
    )
    history = History(
        run=state.config.name,
        decisions=[one.decision for one in state.cycles if one.decision is not None],
        blessed=blessed.digest if blessed else "",
        blessed_rate=_rate_of(state, blessed.digest if blessed else ""),
        rungs=[rung.name for rung in state.config.ladder],
    )
    return decide(evidence, history, state.config.decide)


def decide(evidence: CandidateEvidence, history: History, plan: DecidePlan) -> Decision:
    """One row of the decision table."""

    def outcome(decision: str, why: str, blessed: str = history.blessed) -> Decision:
        return Decision(
            cycle=evidence.cycle,
            decision=decision,  # type: ignore[arg-type]
            why=why,
            rung=evidence.rung,
            candidate=evidence.candidate,
            blessed=blessed,
            gate=evidence.gate,
            gate_number=evidence.gate_number,
            level=evidence.level,
            pairs_needed=evidence.shortage.needed if evidence.shortage else 0,
            diagnosis=evidence.diagnosis if not blessed else (),
        )

    gate = evidence.gate
    if evidence.shortage is not None:
        room = f"no room to show an improvement over {history.blessed_rate:.0%}"
        return outcome("stop", f"{room}: {_remedy(evidence.shortage, history.run)}")
    if gate is None:
        if evidence.rate > plan.baseline_floor:
            why = (
                f"first checkpoint above {plan.baseline_floor:.0%}: later ones are compared with it"
            )
            return outcome("baseline", why, evidence.candidate)
        return outcome("iterate", f"success is not above {plan.baseline_floor:.0%} yet")
    won = f"{gate.wins} won, {gate.losses} lost of {gate.pairs} pairs"
    counted = f"{won}, {_level(evidence, gate, history)}"
    if gate.verdict == "better":
        return outcome("promote", f"better than the baseline ({counted})", evidence.candidate)
    if gate.verdict == "worse":
        return outcome("rollback", f"worse than the baseline ({counted})")
    if gate.ended == "vetoed":
        tasks = ", ".join(gate.worse_tasks)
        return outcome("iterate", f"better in all, but worse in {tasks} ({counted})")
    in_a_row = _inconclusive_in_a_row(evidence, history)
    if in_a_row < plan.escalate_after:
        return outcome("iterate", f"no difference shown{_how_far(gate)} ({counted})")
    rate = f"baseline at {history.blessed_rate:.0%}"
    if history.blessed_rate < plan.escalate_floor:
        return outcome(
            "iterate",
            f"no difference shown ({counted}); {rate}, below {plan.escalate_floor:.0%}: more data "
            "comes before a bigger policy",
        )
    here, above = history.rungs[evidence.rung], history.rungs[evidence.rung + 1 :]
    shown = f"{in_a_row} gates in a row showed no difference on {here}, {rate}"
    if above:
        return outcome("escalate", f"{shown}: next rung {above[0]}")
    return outcome("stop", f"{shown}: {here} is the last rung of the ladder")


def _remedy(shortage: Shortage, run: str) -> str:
    if shortage.listed:
        return (
            f"{shortage.needed} pairs would show it, and the list of initial states allows "
            f"{shortage.listed}"
        )
    return (
        "continue in a new run with more pairs: lefleet run -c FILE "
        f"--from {run} --name=NEW --gate.max_pairs={shortage.needed}"
    )


def _level(evidence: CandidateEvidence, gate: GateResult, history: History) -> str:
    """The p-value, the level that it was compared with, and where that came from."""
    level = evidence.level
    is_worse = gate.verdict == "worse"
    p_value, at = (
        (gate.p_worse, gate.alpha_worse) if is_worse else (gate.p_value, gate.alpha_better)
    )
    said = f"p = {p_value:.2g} at level {at:.2g}"
    if level is None:
        return said
    if level.source == "rate":
        said += ", which guarantee: rate allows"
    else:
        reserve = " of the reserve" if level.source == "reserve" else ""
        if is_worse or not level.passed_on:
            said += f", its share{reserve}"
        else:
            said += (
                f": its share of {level.share:.2g}{reserve} and {level.passed_on:.2g} from "
                f"cycle {level.passed_by}'s {_verdict(level.passed_by, history)}"
            )
    if level.guarantee == "none":
        said += (
            f"; no promise for the whole run, because its gates share {evidence.initial_states} "
            "initial states per task"
        )
    return said


def _verdict(cycle: int | None, history: History) -> str:
    """What to call a gate that said better: a person may have rejected the promotion."""
    promoted = {one.cycle for one in history.decisions if one.decision == "promote"}
    return "promotion" if cycle in promoted else "verdict"


def _how_far(gate: GateResult) -> str:
    """Why a gate without a verdict ended before all of its pairs."""
    if gate.ended != "futile":
        return ""
    effect, all_the_room = gate.min_effect, ""
    if gate.baseline_rate is not None and 1.0 - gate.baseline_rate < effect:
        effect, all_the_room = 1.0 - gate.baseline_rate, ", which is all the room there is"
    return (
        f"; stopped after {gate.pairs} of {gate.max_pairs} pairs: the remaining pairs are unlikely "
        f"to show a difference of {100 * effect:.3g} points{all_the_room}"
    )


def _inconclusive_in_a_row(evidence: CandidateEvidence, history: History) -> int:
    """This gate and those directly before it on the same rung that futility or max_pairs ended."""
    count = 1
    for decision in reversed(history.decisions):
        gate = decision.gate
        if decision.rung != evidence.rung or gate is None or gate.ended not in UNDECIDED:
            break
        count += 1
    return count


def _rate_of(state: RunState, digest: str) -> float:
    """Success of a checkpoint in its own fixed block."""
    result = state.result_of(digest)
    return result.overall.rate if result else 0.0


def _required(evaluation: EvaluationRecord | None) -> EvaluationRecord:
    if evaluation is None:
        raise ValueError("a decision needs an evaluation")
    return evaluation
