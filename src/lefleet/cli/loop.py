"""demo, run, resume, stop, status: commands about whole runs."""

import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from lefleet.cli.commands import Demo, Resume, Run, Status, Stop
from lefleet.cli.viewer import view
from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.ledger import Ledger, RunRow, open_ledger
from lefleet.ledger.connect import FILE as LEDGER_FILE
from lefleet.loop.config import load_config
from lefleet.loop.controller import Controller
from lefleet.loop.plan import plan_lines
from lefleet.loop.runs import (
    CONTROLLER_LOG,
    begin,
    end_processes,
    find,
    is_controlled,
    resume,
)
from lefleet.loop.status import run_status
from lefleet.loop.summary import PLOT

_ALMOST_NOTHING = 2**20
DEMO_CONFIG = Path(__file__).parents[1] / "loop" / "demo.yaml"


def control(workdir: Path, run: str) -> int:
    """`lefleet controller exec WORKDIR RUN`; its output is the run's controller.log."""
    try:
        return Controller(workdir, run).run()
    except (LeFleetError, OSError, SQLAlchemyError) as error:
        traceback.print_exc()
        print(f"{' '.join(str(error).split())}", file=sys.stderr)
        return 1


def run_loop_command(command: Demo | Run | Resume | Stop | Status, overrides: Sequence[str]) -> int:
    """Carry out one of these commands."""
    match command:
        case Demo() | Run():
            return run_command(command, overrides)
        case Resume():
            return resume_command(command)
        case Stop():
            return stop_command(command)
        case Status():
            return status_command(command)


def run_command(command: Run | Demo, overrides: Sequence[str]) -> int:
    """Start a run, or find it, and look at it."""
    path = DEMO_CONFIG if isinstance(command, Demo) else command.config
    config = load_config(path, overrides)
    workdir = command.workdir.expanduser().resolve()
    if command.plan:
        print("\n".join(plan_lines(config, workdir / config.name)))
        return 0
    ledger = open_ledger(workdir)
    happened = begin(ledger, workdir, config)
    _explain(happened, config.name)
    if happened == "finished":
        return _report(ledger, workdir, config.name, as_json=command.json)
    return _look(ledger, workdir, config.name, as_json=command.json)


def resume_command(command: Resume) -> int:
    """Continue one run and look at it, or all of them."""
    workdir = command.workdir.expanduser().resolve()
    ledger = open_ledger(workdir)
    if command.all:
        for row in ledger.runs():
            if row.state == "running":
                _explain(resume(ledger, workdir, row), row.id)
            elif row.state != "finished":
                print(f"{row.id} is {row.state}; it goes on with: lefleet resume {row.id}")
        return 0
    if not command.run:
        raise BadInput("run: none given.", "Name one, or use --all.")
    row = find(ledger, command.run)
    happened = resume(ledger, workdir, row)
    _explain(happened, row.id)
    if happened == "finished":
        return _report(ledger, workdir, row.id, as_json=command.json)
    return _look(ledger, workdir, row.id, as_json=command.json)


def stop_command(command: Stop) -> int:
    """Ask a run to stop and wait until it has."""
    workdir = command.workdir.expanduser().resolve()
    ledger = open_ledger(workdir)
    row = find(ledger, command.run)
    if row.state != "running":
        print(f"{row.id} is not running: it is {row.state}.", file=sys.stderr)
        return 0
    ledger.request_stop(row.id)
    while _is_running(ledger, row.id):
        if not is_controlled(workdir / row.id):
            end_processes(workdir / row.id)
            ledger.set_run_state(row.id, "stopped", "a person asked for it")
        time.sleep(0.2)
    print(f"{row.id} has stopped. Go on with: lefleet resume {row.id}", file=sys.stderr)
    return 0


def status_command(command: Status) -> int:
    """What all runs, or one, have come to."""
    workdir = command.workdir.expanduser().resolve()
    if not (workdir / LEDGER_FILE).exists() and not command.run:
        _print_statuses([], as_json=command.json)
        return 0
    ledger = open_ledger(workdir)
    while True:
        rows = [find(ledger, command.run)] if command.run else ledger.runs()
        _show(ledger, rows, as_json=command.json)
        if not command.watch or all(row.state != "running" for row in rows):
            return 0
        time.sleep(2.0)


def _is_running(ledger: Ledger, run: str) -> bool:
    row = ledger.run(run)
    return row is not None and row.state == "running"


def _explain(happened: str, run: str) -> None:
    words = {
        "created": f"Run {run} has begun.",
        "attached": f"Run {run} is under way; this is another look at it.",
        "resumed": f"Run {run} goes on.",
        "finished": f"Run {run} is finished.",
    }
    print(words[happened], file=sys.stderr)


def _look(ledger: Ledger, workdir: Path, run: str, *, as_json: bool) -> int:
    try:
        state = view(ledger, workdir, run)
    except KeyboardInterrupt:
        print(
            f"\nNo longer looking; run {run} goes on. Look again: lefleet resume {run}. "
            f"Stop it: lefleet stop {run}.",
            file=sys.stderr,
        )
        return 0
    if state == "gone":
        log = workdir / run / CONTROLLER_LOG
        raise StageFailed(
            f"The controller of {run} is gone: {_last_words(log)}",
            f"(log: {log}). Go on with: lefleet resume {run}",
        )
    return _report(ledger, workdir, run, as_json=as_json)


def _last_words(log: Path) -> str:
    """Why a controller ended; on a full disk it could not even write that down."""
    if shutil.disk_usage(log.parent).free < _ALMOST_NOTHING:
        return "the disk is full (No space left on device)"
    words = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    return words[0] if words else "it was killed"


def _report(ledger: Ledger, workdir: Path, run: str, *, as_json: bool) -> int:
    row = find(ledger, run)
    _show(ledger, [row], as_json=as_json)
    if row.state == "failed":
        print(f"lefleet: {row.reason} Go on with: lefleet resume {run}", file=sys.stderr)
        return 1
    if not as_json:
        _what_next(run_status(ledger, row), workdir / run)
    return 0


def _show(ledger: Ledger, rows: list[RunRow], *, as_json: bool) -> None:
    _print_statuses([run_status(ledger, row) for row in rows], as_json=as_json)


def _print_statuses(statuses: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        text = msgspec.json.format(msgspec.json.encode({"runs": statuses}), indent=2)
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if not statuses:
        console.print("No runs yet. Begin with: lefleet demo")
    for status in statuses:
        reason = f" ({status['reason']})" if status["reason"] else ""
        console.print(f"{status['id']}: {status['state']}{reason}", style="bold")
        console.print(_cycles(status))


def _cycles(status: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("cycle", "episodes", "success", "95 % interval", "decision", "checkpoint"):
        table.add_column(column)
    for cycle in status["cycles"]:
        rate, interval = cycle["success_rate"], cycle["interval"]
        table.add_row(
            str(cycle["index"]),
            str(cycle["demonstrations"] or ""),
            f"{rate:.0%}" if rate is not None else "",
            f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else "",
            cycle["decision"] or ", ".join(cycle["stages"]),
            (cycle["checkpoint_digest"] or "")[:12]
            + (" blessed" if status["blessed"] == cycle["checkpoint_digest"] else ""),
        )
    return table


def _what_next(status: dict[str, Any], folder: Path) -> None:
    for cycle in status["cycles"]:
        if cycle["why"]:
            print(f"cycle {cycle['index']}: {cycle['decision']}: {cycle['why']}")
        for remark in cycle["diagnosis"]:
            print(f"  look at {remark}")
    if (folder / PLOT).exists():
        print(f"Plot:       {folder / PLOT}")
    videos = sorted(folder.glob("cycle_*/evaluate/videos"))
    print(f"Videos:     {videos[-1] if videos else 'none (see: lefleet doctor)'}")
    if status["blessed_path"]:
        print(f"Blessed:    {status['blessed_path']}")
        tasks = " ".join(status["tasks"])
        print(
            f"Try it:     lefleet eval --checkpoint {status['blessed_path']} "
            f"--tasks {tasks} --seed 400000000 --out DIR"
        )
