"""approve and reject: what a person says to a run that waits."""

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.actions.answers import answer_run, make_answer
from lefleet.actions.people import user_name
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.cli.report import resume_hint, workdir_flag


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
    """Say yes to what a run waits for; it then continues."""


@dataclass(frozen=True, kw_only=True)
class RejectCommand(AnswerCommand):
    """Say no to what a run waits for; it continues without it. A rejected promotion keeps the
    baseline."""

    why: str
    """Reason, kept with the decision and in the knowledge pages."""


APPROVAL_COMMANDS: dict[str, type[OutputOptions]] = {
    "approve": ApproveCommand,
    "reject": RejectCommand,
}


def answer(command: AnswerCommand) -> int:
    """Record the answer with its time and the system user, and let the run continue."""
    workdir = absolute(command.workdir, "workdir")
    is_approved = isinstance(command, ApproveCommand)
    said = make_answer(approved=is_approved, who=user_name(), why=command.why)
    with show_phases(command.run, as_lines=command.json) as progress:
        asked, happened = answer_run(workdir, command.run, said, command.question, progress)
    if command.json:
        print_json(
            {"run": asked.run, "approval": asked.id, "kind": asked.kind, "happened": happened}
        )
    verb = "Approved" if is_approved else "Rejected"
    print(f"{verb}: {printable(asked.text)}", file=sys.stderr)
    flag = workdir_flag(workdir)
    if happened in ("resumed", "attached"):
        print(f"{asked.run} continues. Watch it: lefleet resume {asked.run}{flag}", file=sys.stderr)
    else:
        print(f"{asked.run} is {happened}. {resume_hint(asked.run, workdir)}", file=sys.stderr)
    return 0
