"""What runs ask people, and what was answered by whom: over all runs of a work folder."""

import time

from lefleet.errors import Unknown
from lefleet.ledger import ApprovalRow, Ledger
from lefleet.loop.approvals import timed_out
from lefleet.loop.decide import UNDECIDED
from lefleet.loop.state import CycleState, RunState
from lefleet.queries.comparison import ROLES, sentence
from lefleet.queries.paging import DEFAULT_LIMIT, Page, checked
from lefleet.queries.runs import RunReader
from lefleet.queries.status import CycleStatus
from lefleet.records import ApprovalKind, Rung
from lefleet.records.border import Strict

__all__ = [
    "QUESTIONS",
    "ApprovalRow",
    "Plateau",
    "answered_approvals",
    "approval",
    "open_approvals",
    "plateau",
]

QUESTIONS: dict[ApprovalKind, str] = {
    "promote": "Promote the candidate?",
    "escalate": "Use the next rung?",
    "constitution": "Continue under the changed rules?",
    "real_hardware": "Move a real robot?",
}
"""What is asked, in a few words."""


class PastVerdict(Strict, frozen=True, kw_only=True):
    """What the gate of a cycle said."""

    cycle: int
    text: str


class Plateau(Strict, frozen=True, kw_only=True):
    """What an escalation rests on: gates in a row that showed no difference on one rung."""

    gates: tuple[PastVerdict, ...]
    """The newest first."""
    cycles: tuple[CycleStatus, ...]
    """All of the run, for its success."""
    rung: str
    next_rung: str
    """Both in words."""


def plateau(reader: RunReader, asked: ApprovalRow) -> Plateau | None:
    """None where this lefleet cannot read the run, or the question is about something else."""
    facts = reader.facts(asked.run)
    state = facts.state
    if state is None or asked.kind != "escalate" or asked.cycle >= len(state.cycles):
        return None
    rung = int(asked.evidence.get("decision", {}).get("rung", 0))
    here, above = state.config.ladder[rung : rung + 1], state.config.ladder[rung + 1 : rung + 2]
    return Plateau(
        gates=tuple(_undecided(state, asked.cycle, rung)),
        cycles=facts.status.cycles,
        rung=_words(here),
        next_rung=_words(above),
    )


def _undecided(state: RunState, cycle: int, rung: int) -> list[PastVerdict]:
    """The gate of `cycle`, and those directly before it on the same rung."""
    found: list[PastVerdict] = []
    for one in reversed(state.cycles[: cycle + 1]):
        record = one.gate()
        if record is None or record.gate.ended not in UNDECIDED or not _is_on(one, rung):
            break
        found.append(PastVerdict(cycle=one.index, text=sentence(record, ROLES)))
    return found


def _is_on(cycle: CycleState, rung: int) -> bool:
    return cycle.decision is None or cycle.decision.rung == rung


def _words(rungs: tuple[Rung, ...]) -> str:
    return ", ".join(f"{one.name}: {one.policy_type}, {one.steps:,} steps" for one in rungs)


def open_approvals(ledger: Ledger) -> tuple[ApprovalRow, ...]:
    """Questions that wait for a person, oldest first. One whose time is over waits for nobody."""
    now = time.time()
    rows = [one for one in ledger.approvals.open() if timed_out(one, now) is None]
    return tuple(rows)


def answered_approvals(
    ledger: Ledger, *, offset: int = 0, limit: int = DEFAULT_LIMIT
) -> Page[ApprovalRow]:
    """Answered questions, newest first."""
    offset, limit = checked(offset, limit)
    rows, total = ledger.approvals.answered(offset, limit)
    return Page(items=tuple(rows), total=total, offset=offset)


def approval(ledger: Ledger, number: int) -> ApprovalRow:
    """The question of this number."""
    row = ledger.approvals.one(number)
    if row is None:
        raise Unknown(
            f"approval: there is no question {number}.", "Questions are listed at /approvals."
        )
    return row
