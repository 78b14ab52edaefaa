"""What a run asks a person, and what follows from the answer: pure functions."""

import time
from typing import Any, NamedTuple

import msgspec

from lefleet.ledger import ApprovalRow
from lefleet.records import ApprovalAnswer, ApprovalKind, ApprovalPlan, Decision

TIMEOUT = "timeout"
"""Who answers when nobody does."""


class ApprovalQuestion(NamedTuple):
    """What to ask."""

    kind: ApprovalKind
    subject: str
    """Makes it one question, which is asked once."""
    cycle: int
    text: str
    """One line for a person."""
    evidence: dict[str, Any]


def must_ask(decision: Decision, plan: ApprovalPlan, *, moves_hardware: bool) -> bool:
    """Whether a person has to be asked before a decision takes effect."""
    promote = plan.promote or ("human" if moves_hardware else "auto")
    modes = {"promote": promote, "escalate": plan.escalate}
    return modes.get(decision.decision, "auto") == "human"


def question_about(decision: Decision) -> ApprovalQuestion | None:
    """What can be asked about a decision; None where nobody is asked about such a one."""
    if decision.decision not in ("promote", "escalate"):
        return None
    verb = "promote the candidate" if decision.decision == "promote" else "use the next rung"
    return ApprovalQuestion(
        kind="promote" if decision.decision == "promote" else "escalate",
        subject=f"cycle {decision.cycle}: {decision.candidate}",
        cycle=decision.cycle,
        text=f"{verb} of cycle {decision.cycle} ({decision.candidate[:12]}): {decision.why}",
        evidence={"decision": msgspec.to_builtins(decision)},
    )


def hardware_question(cycle: int, what: str) -> ApprovalQuestion:
    """Before a run moves a real robot for the first time."""
    return ApprovalQuestion(
        "real_hardware", "run", cycle, f"move real hardware: {what}", {"what": what}
    )


def constitution_question(
    cycle: int, digest: str, path: str, changes: list[str], problem: str
) -> ApprovalQuestion:
    """A run's constitution has changed; `problem` says why the new one cannot be used."""
    name = path or "constitution: that of LeFleet, as there is no file any more"
    text = f"go on under the changed {name}: {problem or '; '.join(changes) or 'same rules'}"
    evidence = {"path": path, "digest": digest, "changes": changes, "problem": problem}
    return ApprovalQuestion("constitution", digest, cycle, text, evidence)


def with_answer(decision: Decision, answer: ApprovalAnswer, blessed: str) -> Decision:
    """The decision after a person was asked. What is rejected is an iterate: the checkpoint
    `blessed` before stays so."""
    if answer.approved:
        why = f"{decision.why}; approved by {answer.who}{_because(answer)}"
        return msgspec.structs.replace(decision, why=why, answer=answer)
    noun = "promotion" if decision.decision == "promote" else "escalation"
    return msgspec.structs.replace(
        decision,
        decision="iterate",
        blessed=blessed,
        why=f"{noun} rejected by {answer.who}{_because(answer)}; the evidence: {decision.why}",
        answer=answer,
    )


def _because(answer: ApprovalAnswer) -> str:
    return f": {answer.why}" if answer.why else ""


def timed_out(approval: ApprovalRow, now: float) -> ApprovalAnswer | None:
    """The answer that the time-out stands for; None before it."""
    if approval.expires_at is None or now < approval.expires_at:
        return None
    hours = (approval.expires_at - approval.asked_at) / 3600
    # Rules that cannot be read cannot be approved.
    is_possible = not approval.evidence.get("problem")
    return ApprovalAnswer(
        approved=approval.on_timeout == "approve" and is_possible,
        who=TIMEOUT,
        at=now,
        why=f"nobody answered within {hours:g} h",
    )


def waiting_words(approval: ApprovalRow) -> str:
    """What a run waits for, and until when."""
    until = ""
    if approval.expires_at is not None:
        clock = time.strftime("%Y-%m-%d %H:%M", time.localtime(approval.expires_at))
        until = f" (without an answer by {clock}: {approval.on_timeout})"
    return f"a person to {approval.text}{until}"
