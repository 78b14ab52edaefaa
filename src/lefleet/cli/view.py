"""status, and the view of a run that run, demo and resume show.

A view only reads the ledger and the stages' progress, so that Ctrl-C never affects a run.
"""

import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

from lefleet.cli.commands import StatusCommand
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_progress
from lefleet.cli.report import is_interrupted, label, report, resume_hint, show_runs, workdir_flag
from lefleet.cli.signals import interruptible
from lefleet.errors import StageFailed
from lefleet.ledger import EventRow, Ledger, read_ledger
from lefleet.loop.activity import START_S, activity
from lefleet.loop.runs import CONTROLLER_LOG, find, is_controlled, last_log_line

_POLL_S = 0.25
_WATCH_S = 2.0
_DISK_FULL = 2**20
HAPPENED = {
    "created": "Run {run} started.",
    "attached": "Run {run} is already running; attaching.",
    "resumed": "Run {run} resumed.",
    "finished": "Run {run} is finished.",
}


def status(command: StatusCommand) -> int:
    """Show one run or all, once or until none is active."""
    workdir = absolute(command.workdir, "workdir")
    try:
        with interruptible(), closing(read_ledger(workdir)) as ledger:
            interrupted = _show_until_idle(command, ledger, workdir)
    except KeyboardInterrupt:
        if not command.watch:
            raise
        print("\nStopped watching; the runs continue.", file=sys.stderr)
        return 0
    for name in interrupted:
        print(f"{name} has no running controller. {resume_hint(name, workdir)}", file=sys.stderr)
    return 0


def _show_until_idle(command: StatusCommand, ledger: Ledger, workdir: Path) -> list[str]:
    """Show the runs, with --watch until none is active; returns the interrupted ones."""
    while True:
        rows = [find(ledger, command.run)] if command.run else ledger.runs()
        show_runs(ledger, workdir, rows, as_json=command.json)
        interrupted = [row.id for row in rows if is_interrupted(workdir, row)]
        running = [row.id for row in rows if row.state == "running"]
        if not command.watch or running == interrupted:
            return interrupted
        time.sleep(_WATCH_S)


def attach(workdir: Path, name: str, happened: str, *, as_json: bool) -> int:
    """Show a run until it ends, then its report. Ctrl-C detaches."""
    print(HAPPENED[happened].format(run=name), file=sys.stderr)
    state = happened
    try:
        if happened != "finished":
            with interruptible(), closing(read_ledger(workdir)) as ledger:
                state = _view(ledger, workdir, name)
    except KeyboardInterrupt:
        flag = workdir_flag(workdir)
        print(
            f"\nDetached; run {name} continues. Attach again: lefleet resume {name}{flag}. "
            f"Stop it: lefleet stop {name}{flag}.",
            file=sys.stderr,
        )
        return 0
    if state == "gone":
        folder = workdir / name
        raise StageFailed(
            f"The controller of {name} exited: {_why(folder)}",
            f"(log: {folder / CONTROLLER_LOG}). {resume_hint(name, workdir)}",
        )
    with closing(read_ledger(workdir)) as ledger:
        return report(ledger, workdir, name, as_json=as_json)


def _why(folder: Path) -> str:
    """Why a controller exited; with a full disk it could not write that down."""
    if shutil.disk_usage(folder).free < _DISK_FULL:
        return "the disk is full (No space left on device)"
    return last_log_line(folder) or "it was killed"


def _view(ledger: Ledger, workdir: Path, name: str) -> str:
    """Show events and progress; returns the state in which the run ended, or `gone` where its
    controller exited without ending it."""
    seen, known, now = 0, None, None
    last_controlled = time.monotonic()
    with show_progress() as show:
        while True:
            # Before the events: those of a run that has ended are then all there.
            has_controller, row = is_controlled(workdir / name), ledger.run(name)
            for event in ledger.events(name, after=seen):
                seen = event.id
                _print_event(event)
            if row is None:
                return "gone"
            if row.state != "running" and not has_controller:
                return row.state
            if known != (known := (seen, has_controller)):
                now = activity(ledger, row, workdir / name, is_controlled=has_controller)
            if now is not None:
                show(label(name, now), now.progress())
            if has_controller:
                last_controlled = time.monotonic()
            elif time.monotonic() - last_controlled > START_S:
                return "gone"
            time.sleep(_POLL_S)


def _print_event(event: EventRow) -> None:
    """One line for each event that matters to a person; all events are in events.jsonl."""
    data = event.data
    where = f"cycle {data['cycle']}" if "cycle" in data else ""
    match event.kind:
        case "stage_committed":
            text = f"{where}: {data['stage']} done"
        case "stage_failed" | "stage_killed" | "stage_gone" | "stage_cancelled" | "stage_skipped":
            text = f"{where}: {data['stage']} {event.kind[6:]}: {data['error']}"
        case "decision":
            text = f"{where}: {data['decision'].upper()}: {data['why']}"
        case "run_resumed" | "stop_requested":
            text = event.kind.replace("_", " ")
        case _:
            return
    print(time.strftime("%H:%M:%S", time.localtime(event.at)), text, file=sys.stderr, flush=True)
