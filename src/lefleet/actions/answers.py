"""Say yes or no to what a run waits for, and let the run continue."""

import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from lefleet.actions.people import words_of
from lefleet.errors import BadInput, Conflict
from lefleet.ledger import ApprovalRow, Ledger, open_ledger
from lefleet.loop import runs as loop_runs
from lefleet.loop.answers import record_answer
from lefleet.queries.approvals import approval
from lefleet.records import ApprovalAnswer
from lefleet.stages.progress import Progress, silent


class Answered(NamedTuple):
    """What came of an answer."""

    asked: ApprovalRow
    happened: str
    """resumed or attached where the run continues, otherwise its state."""


def answer_run(
    workdir: Path,
    run: str,
    said: ApprovalAnswer,
    number: int | None = None,
    progress: Progress = silent,
) -> Answered:
    """Answer what a run waits for; `number`, where it is given, must be that of its question."""
    with closing(open_ledger(workdir, create=False)) as ledger:
        row = loop_runs.find(ledger, run)
        try:
            asked = record_answer(ledger, workdir, row, said, number)
        finally:
            # Also where an answer was there already, but the run was not resumed.
            happened = _continue(ledger, workdir, run, said.who, progress)
    return Answered(asked, happened)


def answer_question(workdir: Path, number: int, said: ApprovalAnswer) -> Answered:
    """Answer the question of this number. The same answer of the same person again changes nothing;
    raises Conflict, and changes nothing, where the question has another one."""
    with closing(open_ledger(workdir, create=False)) as ledger:
        asked = approval(ledger, number)
        if asked.answer is None:
            row = loop_runs.find(ledger, asked.run)
            try:
                record_answer(ledger, workdir, row, said, number)
            except BadInput:
                # Somebody, or its time-out, was faster.
                if approval(ledger, number).answer is None:
                    raise
            asked = approval(ledger, number)
        there = asked.answer
        if there is not None and (there.approved, there.who) != (said.approved, said.who):
            verb = "approved" if there.approved else "rejected"
            clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(there.at))
            raise Conflict(
                f"approval: {there.who} {verb} question {number} at {clock}.",
                "That answer stands: a question is answered once.",
            )
        # Also after a repeated answer: whoever gave it first may have been killed before this.
        happened = _continue(ledger, workdir, asked.run, said.who, silent)
    return Answered(asked, happened)


def make_answer(*, approved: bool, who: str, why: str) -> ApprovalAnswer:
    """An answer of now; BadInput where a no has no reason."""
    why = words_of(why, "why")
    if not approved and not why:
        raise BadInput("why: it is empty.", "Say why not, for those who come after you.")
    return ApprovalAnswer(approved=approved, who=who, at=time.time(), why=why)


def _continue(ledger: Ledger, workdir: Path, run: str, who: str, progress: Progress) -> str:
    """See that a run without an open question has a controller; a run that was stopped or failed
    stays so."""
    row = loop_runs.find(ledger, run)
    if row.state == "waiting" or (row.state == "running" and not row.stop_requested):
        return loop_runs.resume(ledger, workdir, row, progress, by=who)
    return row.state
