"""status, and the view of a run that run, demo and resume show.

A view only reads the ledger and the stages' progress, so that Ctrl-C never affects a run.
"""

import shutil
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live

from lefleet.cli.commands import StatusCommand
from lefleet.cli.output import print_json_line, printable
from lefleet.cli.parse import absolute
from lefleet.cli.progress import ProgressLines, Show, show_progress
from lefleet.cli.report import (
    dashboard_line,
    label,
    report,
    resume_hint,
    show_runs,
    workdir_flag,
)
from lefleet.cli.signals import interruptible
from lefleet.errors import StageFailed
from lefleet.ledger import Ledger, RunRow, read_ledger
from lefleet.loop.activity import START_S, Activity, activity, is_interrupted
from lefleet.loop.runs import CONTROLLER_LOG, find, is_controlled, last_log_line
from lefleet.queries.events import event_text
from lefleet.queries.status import RunStatus, run_status

_POLL_S = 0.25
_WATCH_S = 1.0
_DISK_FULL = 2**20
HAPPENED = {
    "created": "Run {run} started.",
    "attached": "Run {run} is already running; attaching.",
    "resumed": "Run {run} resumed.",
    "finished": "Run {run} is finished.",
    "waiting": "Run {run} waits for a person.",
}


def status(command: StatusCommand) -> int:
    """Show one run or all, once or until none is active."""
    workdir = absolute(command.workdir, "workdir")
    try:
        with interruptible(), closing(read_ledger(workdir)) as ledger:
            rows = [find(ledger, command.run)] if command.run else ledger.runs()
            active = [row.id for row in rows if _is_active(ledger, row)]
            if command.watch and command.json:
                _watch_json(ledger, workdir, command.run)
            elif command.watch and active:
                _watch(ledger, workdir, active)
            else:
                show_runs(
                    ledger, workdir, rows, as_json=command.json, with_reasons=bool(command.run)
                )
                if command.watch and command.run and (screen := _screen()):
                    _print_evidence(ledger, workdir, command.run, screen)
            names = [command.run] if command.run else [row.id for row in ledger.runs()]
            interrupted = [one for one in names if _is_interrupted(ledger, find(ledger, one))]
    except KeyboardInterrupt:
        if not command.watch:
            raise
        print("\nStopped watching; the runs continue.", file=sys.stderr)
        return 0
    for name in interrupted:
        print(f"{name} has no running controller. {resume_hint(name, workdir)}", file=sys.stderr)
    return 0


def _is_interrupted(ledger: Ledger, row: RunRow) -> bool:
    return is_interrupted(row, is_controlled=is_controlled(ledger, row.id))


def _is_active(ledger: Ledger, row: RunRow) -> bool:
    return row.state == "running" and not _is_interrupted(ledger, row)


def _watch_json(
    ledger: Ledger, workdir: Path, run: str, wait: Callable[[float], None] = time.sleep
) -> None:
    """A line for every run, and another one whenever something but time has changed in it."""
    printed: dict[str, RunStatus] = {}
    while True:
        rows = [find(ledger, run)] if run else ledger.runs()
        for row in rows:
            new = run_status(ledger, workdir, row)
            if printed.get(row.id) != (fixed := _without_time(new)):
                printed[row.id] = fixed
                print_json_line(new)
        if not any(_is_active(ledger, row) for row in rows):
            return
        wait(_WATCH_S)


def _without_time(status: RunStatus) -> RunStatus:
    """A run's status without what changes by itself."""
    now = status.now and replace(status.now, eta_s=None)
    return replace(status, now=now, elapsed_s=None, budgets={}, device_hours={})


def _watch(ledger: Ledger, workdir: Path, runs: list[str]) -> None:
    """Show these runs until none of them is active, then their results."""
    if screen := _screen():
        _watch_on_screen(ledger, workdir, runs, screen)
    else:
        _watch_in_lines(ledger, workdir, runs)
    for run in runs:
        report(ledger, workdir, run, as_json=False)


def _screen() -> Console | None:
    """The terminal, if there is one."""
    screen = Console(highlight=False, markup=False)
    return screen if screen.is_terminal and not screen.is_dumb_terminal else None


def _print_evidence(ledger: Ledger, workdir: Path, run: str, screen: Console) -> None:
    """Of a run that nobody needs to watch: it has ended, or waits for a person."""
    from lefleet.cli.watch import RunScreen

    for line in RunScreen(ledger, workdir).evidence(run):
        screen.print(line)


def _watch_on_screen(ledger: Ledger, workdir: Path, runs: list[str], screen: Console) -> None:
    """Draw the runs again and again, on the terminal's other screen: a window that is too small
    cuts them off, and one that changes its size is drawn anew."""
    # Its queries take a while to import, which a script that asks for a status need not wait for.
    from lefleet.cli.watch import RunScreen

    drawn = RunScreen(ledger, workdir)
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            rows = [find(ledger, run) for run in runs]
            parts = [part for run in runs for part in drawn.parts(run)]
            live.update(Group(*parts, "Ctrl-C stops watching; the runs continue."), refresh=True)
            if not any(_is_active(ledger, row) for row in rows):
                return
            time.sleep(_WATCH_S)


def _watch_in_lines(ledger: Ledger, workdir: Path, runs: list[str]) -> None:
    """The state now, then a line for everything that happens, and every few seconds for what is
    going on."""
    rows = [find(ledger, run) for run in runs]
    show_runs(ledger, workdir, rows, as_json=False)
    followers = [Follower(ledger, workdir / run) for run in runs]
    lines: defaultdict[str, Show] = defaultdict(ProgressLines)
    for follower in followers:
        follower.skip()
    while any(_is_active(ledger, find(ledger, run)) for run in runs):
        for follower in followers:
            follower.poll(lines[follower.name])
        time.sleep(_POLL_S)


def attach(workdir: Path, name: str, happened: str, *, as_json: bool) -> int:
    """Show a run until it ends, then its report. Ctrl-C detaches."""
    words = HAPPENED[happened].format(run=name)
    if happened == "attached" and (host := _other_host(workdir, name)):
        words = words.replace("running", f"running on {host}")
    print(words, file=sys.stderr)
    state = happened
    try:
        if happened not in ("finished", "waiting"):
            print(dashboard_line(workdir, name), file=sys.stderr)
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


def _other_host(workdir: Path, name: str) -> str:
    """The machine that a run's controller is running on, unless it is this one."""
    with closing(read_ledger(workdir)) as ledger:
        host = ledger.controllers.host(name)
    return host if host and host != socket.gethostname() else ""


def _why(folder: Path) -> str:
    """Why a controller exited; with a full disk it could not write that down."""
    if shutil.disk_usage(folder).free < _DISK_FULL:
        return "the disk is full (No space left on device)"
    return last_log_line(folder) or "it was killed"


def _view(ledger: Ledger, workdir: Path, name: str) -> str:
    """Show events and progress; returns the state in which the run ended, or `gone` where its
    controller exited without ending it."""
    follower = Follower(ledger, workdir / name)
    last_controlled = time.monotonic()
    with show_progress() as show:
        while True:
            has_controller, row = follower.poll(show)
            if row is None:
                return "gone"
            if row.state != "running" and not has_controller:
                return row.state
            if has_controller:
                last_controlled = time.monotonic()
            elif time.monotonic() - last_controlled > START_S:
                return "gone"
            time.sleep(_POLL_S)


class Follower:
    """Prints the events of one run, and shows what it does between them."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.name = folder.name
        self._ledger = ledger
        self._folder = folder
        self._seen = 0
        self._known: tuple[int, bool] | None = None
        self._now: Activity | None = None

    def skip(self) -> None:
        """Do not print what has happened so far."""
        while events := self._ledger.events(self.name, after=self._seen):
            self._seen = events[-1].id

    def poll(self, show: Show) -> tuple[bool, RunRow | None]:
        """Print and show what is new; whether there is a controller, and the run's row."""
        # Before the events: those of a run that has ended are then all there.
        has_controller = is_controlled(self._ledger, self.name)
        row = self._ledger.run(self.name)
        for event in self._ledger.events(self.name, after=self._seen):
            self._seen = event.id
            if text := event_text(self.name, event):
                clock = time.strftime("%H:%M:%S", time.localtime(event.at))
                print(clock, printable(text), file=sys.stderr, flush=True)
        if row is None or row.state != "running":
            return has_controller, row
        # The state of a run changes only with an event, and is expensive to read.
        if self._known != (known := (self._seen, has_controller)):
            self._now = activity(self._ledger, row, self._folder, is_controlled=has_controller)
            self._known = known
        if self._now is not None:
            show(label(self.name, self._now), self._now.progress())
        return has_controller, row
