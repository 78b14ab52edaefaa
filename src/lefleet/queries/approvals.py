"""What runs ask people, and what was answered by whom: over all runs of a work folder."""

import time

from lefleet.errors import Unknown
from lefleet.ledger import ApprovalRow, Ledger
from lefleet.loop.approvals import timed_out
from lefleet.queries.paging import DEFAULT_LIMIT, Page, checked
from lefleet.records import ApprovalKind

__all__ = ["QUESTIONS", "ApprovalRow", "answered_approvals", "approval", "open_approvals"]

QUESTIONS: dict[ApprovalKind, str] = {
    "promote": "Promote the candidate?",
    "escalate": "Use the next rung?",
    "constitution": "Continue under the changed rules?",
    "real_hardware": "Move a real robot?",
}
"""What is asked, in a few words."""


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
