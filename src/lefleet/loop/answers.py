"""Answers to what runs ask: which question is open, and recording what a person says to it."""

import time
from pathlib import Path

from lefleet.constitution import find
from lefleet.errors import BadInput
from lefleet.ledger import ApprovalRow, Ledger, RunRow
from lefleet.loop.approvals import timed_out
from lefleet.loop.state import stored_config
from lefleet.records import ApprovalAnswer

_BY_NUMBER = ("constitution", "real_hardware")
"""Kinds of questions that are answered only by their number: a person who has seen another
question must not answer these by mistake."""


def open_question(ledger: Ledger, run: str) -> ApprovalRow | None:
    """The question that a run waits for. One that nobody answered in time is answered now."""
    for asked in ledger.approvals.all(run):
        if asked.is_open:
            late = timed_out(asked, time.time())
            if late is None:
                return asked
            ledger.approvals.answer(asked, late)
    return None


def record_answer(
    ledger: Ledger, workdir: Path, row: RunRow, said: ApprovalAnswer, number: int | None
) -> ApprovalRow:
    """Answer the question that a run waits for, and return it; BadInput where it waits for none,
    or for another one than that with this number."""
    asked = open_question(ledger, row.id)
    if asked is None:
        raise _no_question(ledger, row.id)
    if number not in (None, asked.id):
        raise BadInput(
            f"question: {row.id} does not wait for an answer to question {number}.",
            f"It asks now, as question {asked.id}, whether to {asked.text}",
        )
    if number is None and asked.kind in _BY_NUMBER:
        raise BadInput(
            f"question: {row.id} asks whether to {asked.text}.",
            f"Answer it by its number: --question={asked.id}",
        )
    if said.approved and asked.evidence.get("problem"):
        _require_mended(workdir, row)
    if not ledger.approvals.answer(asked, said):
        raise _no_question(ledger, row.id)
    return asked


def forget_rejections(ledger: Ledger, run: str) -> None:
    """Let a run ask again about rules and real robots: a person resumed it after a no."""
    for asked in ledger.approvals.all(run):
        if asked.kind in _BY_NUMBER and asked.answer is not None and not asked.answer.approved:
            ledger.approvals.retire(asked)


def _require_mended(workdir: Path, row: RunRow) -> None:
    """Rules that could not be read can be approved once they can be."""
    try:
        find(workdir, stored_config(row).constitution)
    except BadInput as error:
        raise BadInput(
            f"run: {row.id} cannot go on like this: {error.problem}",
            f"Correct the file, or keep the rules that hold: lefleet reject {row.id}",
        ) from error


def _no_question(ledger: Ledger, run: str) -> BadInput:
    """Says who answered last."""
    answered = [one for one in ledger.approvals.all(run) if one.answer is not None]
    remedy = f"See: lefleet status {run}"
    if answered and (said := answered[-1].answer) is not None:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(said.at))
        verb = "approved" if said.approved else "rejected"
        remedy = f"{said.who} {verb} the last question ({answered[-1].kind}) at {clock}."
    return BadInput(f"run: {run} waits for no answer.", remedy)
