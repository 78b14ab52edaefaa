"""approve and reject: what a person says to a run that waits."""

import getpass
import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.commands import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.loop import runs as loop_runs
from lefleet.records import ApprovalAnswer

_LONGEST_REASON = 2000


@dataclass(frozen=True, kw_only=True)
class AnswerCommand(WorkdirOptions):
    """Commands that answer the question of a run."""

    run: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the run."""
    why: str = ""
    """Kept with the answer."""


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
        asked, happened = loop_runs.answer(ledger, workdir, row, said, progress)
    if command.json:
        print_json({"run": row.id, "approval": asked.id, "kind": asked.kind, "happened": happened})
    verb = "Approved" if is_approved else "Rejected"
    print(f"{verb}: {printable(asked.text)}", file=sys.stderr)
    print(f"{row.id} goes on. Watch it: lefleet resume {row.id}", file=sys.stderr)
    return 0


def user_name() -> str:
    """The system user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # In a container, a number may have no name.
        return str(os.getuid())
