"""approve and reject: what a person says to a run that waits."""

import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.actions.people import user_name
from lefleet.cli.commands import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.cli.report import resume_hint, workdir_flag
from lefleet.errors import BadInput
from lefleet.ledger import Ledger, open_ledger
from lefleet.loop import runs as loop_runs
from lefleet.loop.answers import record_answer
from lefleet.records import ApprovalAnswer
from lefleet.stages.progress import Progress

_LONGEST_REASON = 2000


@dataclass(frozen=True, kw_only=True)
class AnswerCommand(WorkdirOptions):
    """Commands that answer the question of a run."""

    run: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the run."""
    why: str = ""
    """Kept with the answer."""
    question: int | None = None
    """Number of the question, as lefleet status shows it; refused where the run asks another one
    by now."""


@dataclass(frozen=True, kw_only=True)
class ApproveCommand(AnswerCommand):
    """Say yes to what a run waits for; it goes on."""


@dataclass(frozen=True, kw_only=True)
class RejectCommand(AnswerCommand):
    """Say no to what a run waits for; it goes on without it. A rejected promotion keeps the
    baseline."""

    why: str
    """Reason, kept with the decision and in the knowledge pages."""


APPROVAL_COMMANDS: dict[str, type[OutputOptions]] = {
    "approve": ApproveCommand,
    "reject": RejectCommand,
}


def answer(command: AnswerCommand) -> int:
    """Record the answer with its time and the system user, and let the run go on."""
    workdir = absolute(command.workdir, "workdir")
    is_approved = isinstance(command, ApproveCommand)
    why = printable(command.why.strip())
    if not is_approved and not why:
        raise BadInput("why: it is empty.", "Say why not, for those who come after you.")
    if len(why) > _LONGEST_REASON:
        raise BadInput(f"why: {len(why)} characters.", f"Use at most {_LONGEST_REASON}.")
    said = ApprovalAnswer(approved=is_approved, who=user_name(), at=time.time(), why=why)
    with (
        closing(open_ledger(workdir, create=False)) as ledger,
        show_phases(command.run, as_lines=command.json) as progress,
    ):
        row = loop_runs.find(ledger, command.run)
        try:
            asked = record_answer(ledger, workdir, row, said, command.question)
        finally:
            # Also where an answer was there already, but nobody let the run go on.
            happened = _go_on(ledger, workdir, row.id, progress)
    if command.json:
        print_json({"run": row.id, "approval": asked.id, "kind": asked.kind, "happened": happened})
    verb = "Approved" if is_approved else "Rejected"
    print(f"{verb}: {printable(asked.text)}", file=sys.stderr)
    flag = workdir_flag(workdir)
    if happened in ("resumed", "attached"):
        print(f"{row.id} goes on. Watch it: lefleet resume {row.id}{flag}", file=sys.stderr)
    else:
        print(f"{row.id} is {happened}. {resume_hint(row.id, workdir)}", file=sys.stderr)
    return 0


def _go_on(ledger: Ledger, workdir: Path, run: str, progress: Progress) -> str:
    """See that a run without an open question has a controller; a run that was stopped or failed
    stays so. What happened, or its state."""
    row = loop_runs.find(ledger, run)
    if row.state == "waiting" or (row.state == "running" and not row.stop_requested):
        return loop_runs.resume(ledger, workdir, row, progress)
    return row.state
