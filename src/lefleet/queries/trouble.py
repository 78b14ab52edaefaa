"""Why a run stands still, and what a person has to do about it, with the end of the log."""

import shlex
from pathlib import Path
from typing import Literal

from lefleet.ledger import Ledger
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import CONTROLLER_LOG
from lefleet.queries.runs import RunReader, RunReading
from lefleet.queries.words import clock, shown_path
from lefleet.records.border import Strict
from lefleet.stages.child_output import without_decoder_report
from lefleet.stages.folder import LOG

TroubleKind = Literal["answer", "failed", "denied", "interrupted", "unreadable", "stopped"]
_LOG_LINES = 20
_LOG_BYTES = 64_000
"""Of the end of a log: enough for its last lines."""
_LONGEST_LINE = 400


class Trouble(Strict, frozen=True, kw_only=True):
    """Why a run stands still, and what to do about it."""

    kind: TroubleKind
    title: str
    text: str
    remedy: str
    command: str
    """That resumes or answers it, to copy; empty where there is none."""
    may_resume: bool
    """Whether `resume` is what it needs."""
    stage: str
    """The one that failed, or that was interrupted; empty where none did."""
    cycle: int | None
    log: tuple[str, ...]
    """The last lines of the stage's log, or of the controller's."""
    log_file: str
    """Relative to the work folder."""
    approval: int | None
    """Number of the open question."""


def trouble(facts: RunReading, reader: RunReader) -> Trouble | None:
    """None while a run needs nobody, and when it has finished."""
    status, run, word, workdir = facts.status, facts.row.id, facts.status.word, reader.workdir
    if word in ("running", "finished"):
        return None
    folder, (cycle, stage) = workdir / run, _place(facts)
    log = folder / CONTROLLER_LOG
    if facts.state and any((a.cycle, a.stage) == (cycle, stage) for a in facts.state.attempts):
        log = stage_folder(folder, cycle, stage) / LOG
    where = f" in {stage} of cycle {cycle}" if stage else ""
    has_log = word in ("failed", "interrupted", "denied")
    resume = f"lefleet resume {shlex.quote(run)}"
    asked = status.open_approval() if word == "waiting" else None
    words: dict[str, tuple[TroubleKind, str, str, str, str]] = {
        "waiting": (
            "answer" if asked else "stopped",
            f"{run} waits for your answer" if asked else f"{run} was answered and can be resumed",
            f"It asks whether to {asked.text}." if asked else "",
            "Say yes, or say no with the reason." if asked else "Resume it.",
            f"lefleet approve {shlex.quote(run)} --question={asked.id}" if asked else resume,
        ),
        "failed": (
            "failed",
            f"{run} failed{where}",
            status.reason,
            f"Read {shown_path(log, workdir)}, correct the cause, then resume it: it continues "
            "where it failed.",
            resume,
        ),
        "denied": (
            "denied",
            f"{run} was denied by its constitution{where}",
            status.reason,
            "Change what is denied, or the rule, then resume it.",
            resume,
        ),
        "interrupted": (
            "interrupted",
            f"{run} was interrupted{where}",
            "No controller is running: its process was killed, or the machine restarted.",
            "Resume it: nothing that was finished is lost.",
            resume,
        ),
        "unreadable": ("unreadable", f"{run} cannot be read", status.problem, "", ""),
        "stopped": (
            "stopped",
            f"{run} was stopped",
            _stopped(reader.ledger, run) or status.reason,
            "Resume it when you like.",
            resume,
        ),
    }
    kind, title, text, remedy, command = words[word]
    return Trouble(
        kind=kind,
        title=title,
        text=text,
        remedy=remedy,
        command=command,
        may_resume=command == resume,
        stage=stage if has_log else "",
        cycle=cycle if has_log and stage else None,
        log=tail(log) if has_log else (),
        log_file=str(log.relative_to(workdir)) if has_log else "",
        approval=asked.id if asked else None,
    )


def _stopped(ledger: Ledger, run: str) -> str:
    """Who asked it to stop, and when; empty where it stopped for another reason."""
    kinds = ("stop_requested", "run_resumed", "run_created")
    newest = ledger.feed.recent(run, kinds=kinds, limit=1)
    if not newest or newest[0].kind != "stop_requested" or not newest[0].data.get("by"):
        return ""
    return f"By {newest[0].data['by']}, {clock(newest[0].at)}."


def tail(log: Path, lines: int = _LOG_LINES) -> tuple[str, ...]:
    """The last lines of a log that mean something; none where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            size = file.tell()
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    # A progress bar is one line that was overwritten again and again.
    found = [line.rsplit("\r", 1)[-1].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    said = [line for line in without_decoder_report(found) if line]
    return tuple(line[:_LONGEST_LINE] for line in said[-lines:])


def _place(facts: RunReading) -> tuple[int, str]:
    """Where it stands still: at its last attempt, if that brought no record and the run could not
    do without one. A denial may come before the first attempt at a stage."""
    attempts = facts.state.attempts if facts.state else ()
    is_ours = facts.status.word in ("failed", "interrupted")
    if is_ours and attempts and attempts[-1].state not in ("committed", "skipped"):
        return attempts[-1].cycle, attempts[-1].stage
    return facts.place() or (0, "")
