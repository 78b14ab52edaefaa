"""demo, run, resume, stop, status: commands about whole runs."""

import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from lefleet.cli.commands import Demo, Resume, Run, Status, Stop
from lefleet.cli.output import print_json
from lefleet.cli.report import is_interrupted, report, show_runs
from lefleet.cli.viewer import view
from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.ledger import open_ledger, read_ledger
from lefleet.ledger.connect import FILE as LEDGER_FILE
from lefleet.loop.config import check_workdir, load_config
from lefleet.loop.controller import Controller
from lefleet.loop.plan import plan_lines
from lefleet.loop.runs import CONTROLLER_LOG, begin, find, last_words, resume, stop

_ALMOST_NOTHING = 2**20
DEMO_CONFIG = Path(__file__).parents[1] / "loop" / "demo.yaml"
_WORDS = {
    "created": "Run {run} has begun.",
    "attached": "Run {run} is under way; this is another look at it.",
    "resumed": "Run {run} goes on.",
    "finished": "Run {run} is finished.",
}


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
    check_workdir(workdir)
    if command.plan:
        lines = list(plan_lines(config, workdir / config.name))
        if command.json:
            print_json({"lines": lines})
        else:
            print("\n".join(lines))
        return 0
    ledger = open_ledger(workdir)
    happened = begin(ledger, workdir, config)
    ledger.close()
    return _look(workdir, config.name, happened, as_json=command.json)


def resume_command(command: Resume) -> int:
    """Continue one run and look at it, or all of them."""
    if bool(command.run) == command.all:
        given = "both a name and --all" if command.all else "none"
        raise BadInput(f"run: {given} given.", "Name one, or use --all.")
    workdir = command.workdir.expanduser().resolve()
    if command.all:
        return _resume_all(workdir, as_json=command.json)
    ledger = open_ledger(workdir, create=False)
    happened = resume(ledger, workdir, find(ledger, command.run))
    ledger.close()
    return _look(workdir, command.run, happened, as_json=command.json)


def _resume_all(workdir: Path, *, as_json: bool) -> int:
    runs = []
    if (workdir / LEDGER_FILE).exists():
        ledger = open_ledger(workdir)
        for row in ledger.runs():
            was_running = row.state == "running"
            happened = resume(ledger, workdir, row) if was_running else row.state
            runs.append({"id": row.id, "happened": happened})
            if was_running:
                print(_WORDS[happened].format(run=row.id), file=sys.stderr)
            elif row.state != "finished" and not as_json:
                print(f"{row.id} is {row.state}; it goes on with: lefleet resume {row.id}")
    if as_json:
        print_json({"runs": runs})
    return 0


def stop_command(command: Stop) -> int:
    """Ask a run to stop and wait until it has."""
    workdir = command.workdir.expanduser().resolve()
    ledger = open_ledger(workdir, create=False, migrate=False)
    row = find(ledger, command.run)
    if row.state != "running":
        state, words = row.state, f"{row.id} is not running: it is {row.state}."
    elif (state := stop(ledger, workdir, row)) == "stopped":
        words = f"{row.id} has stopped. Go on with: lefleet resume {row.id}"
    else:
        words = f"{row.id} ended before it could be stopped: it is {state}."
    print(words, file=sys.stderr)
    if command.json:
        print_json({"run": row.id, "state": state})
    return 0


def status_command(command: Status) -> int:
    """What all runs, or one, have come to."""
    workdir = command.workdir.expanduser().resolve()
    ledger = read_ledger(workdir)
    while True:
        rows = [find(ledger, command.run)] if command.run else ledger.runs()
        show_runs(ledger, workdir, rows, as_json=command.json)
        interrupted = [row.id for row in rows if is_interrupted(workdir, row)]
        under_way = [row.id for row in rows if row.state == "running"]
        if not command.watch or under_way == interrupted:
            break
        try:
            time.sleep(2.0)
        except KeyboardInterrupt:
            print("\nNo longer looking; the runs go on.", file=sys.stderr)
            return 0
    for run in interrupted:
        print(f"Nobody is at work on {run}. Go on with: lefleet resume {run}", file=sys.stderr)
    return 0


def _look(workdir: Path, run: str, happened: str, *, as_json: bool) -> int:
    ledger = read_ledger(workdir)
    print(_WORDS[happened].format(run=run), file=sys.stderr)
    if happened == "finished":
        return report(ledger, workdir, run, as_json=as_json)
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
        folder = workdir / run
        raise StageFailed(
            f"The controller of {run} is gone: {_why(folder)}",
            f"(log: {folder / CONTROLLER_LOG}). Go on with: lefleet resume {run}",
        )
    return report(ledger, workdir, run, as_json=as_json)


def _why(folder: Path) -> str:
    """Why a controller ended; on a full disk it could not even write that down."""
    if shutil.disk_usage(folder).free < _ALMOST_NOTHING:
        return "the disk is full (No space left on device)"
    return last_words(folder) or "it was killed"
