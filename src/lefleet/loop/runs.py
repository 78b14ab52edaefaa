"""Begin, resume, find and stop runs."""

import logging
import sys
import time
from pathlib import Path
from threading import Thread

import msgspec

from lefleet.errors import BadInput, StageFailed
from lefleet.ledger import Ledger, RunRow
from lefleet.ledger.connect import CONTROLLER_LOCK
from lefleet.loop.controller import Controller
from lefleet.loop.state import read_state, stored_config
from lefleet.process import is_held, launch
from lefleet.records import CheckpointRecord, RunConfig

_LOG = logging.getLogger(__name__)
CONTROLLER_LOG = "controller.log"
_STARTED = "--- controller started"
_EXIT_WAIT_S = 60.0
"""How long a controller whose run has ended may take to exit."""


def begin(ledger: Ledger, workdir: Path, config: RunConfig) -> str:
    """Create the run, or find the one of that name, and see that it has a controller.

    Returns what happened: created, attached or resumed.
    """
    folder = workdir / config.name
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"name: {folder} is a file.", "Give the run another --name.")
    if ledger.create_run(config.name, msgspec.to_builtins(config)):
        start_controller(workdir, config.name)
        return "created"
    row = find(ledger, config.name)
    theirs = stored_config(row)
    if theirs != config:
        raise BadInput(
            f"name: there is a run called {config.name} with another config "
            f"({_difference(theirs, config)}).",
            "Give this one another --name, or continue that one: lefleet resume " + config.name,
        )
    return resume(ledger, workdir, row)


def resume(ledger: Ledger, workdir: Path, row: RunRow) -> str:
    """See that an unfinished run has a controller: attached, resumed or finished."""
    folder = workdir / row.id
    if row.state != "running":
        _wait_for_exit(folder)
        row = find(ledger, row.id)
    if row.state == "finished":
        Controller(workdir, row.id).run()
        return "finished"
    if is_controlled(folder):
        return "attached"
    ledger.resume_run(row.id)
    start_controller(workdir, row.id)
    return "resumed"


def stop(ledger: Ledger, workdir: Path, row: RunRow) -> str:
    """Stop a run and wait until its controller has exited; the state in which the run ended."""
    ledger.request_stop(row.id)
    folder = workdir / row.id
    while row.state == "running" or is_controlled(folder):
        if is_controlled(folder):
            time.sleep(0.2)
        else:
            # The run has no controller to stop it, so this process does what one would do.
            Controller(workdir, row.id).run()
        row = find(ledger, row.id)
    return row.state


def find(ledger: Ledger, run: str) -> RunRow:
    """The run of that name; BadInput lists the existing ones."""
    row = ledger.run(run)
    if row is None:
        names = ", ".join(one.id for one in ledger.runs())
        remedy = f"Runs here: {names}." if names else "Name the --workdir that it was begun with."
        raise BadInput(f"run: there is no run called {run}.", remedy)
    return row


def newest_blessed(ledger: Ledger) -> tuple[RunRow, CheckpointRecord] | None:
    """The newest run that has a blessed checkpoint, and that checkpoint.

    A run that this lefleet cannot read is skipped with a warning.
    """
    for row in reversed(ledger.runs()):
        try:
            blessed = read_state(ledger, row).blessed()
        except BadInput as error:
            _LOG.warning("Run %s is skipped: %s", row.id, error.problem)
            continue
        if blessed is not None:
            return row, blessed
    return None


def start_controller(workdir: Path, run: str) -> None:
    """Start a controller that outlives this process; it exits if there is another one."""
    folder = workdir / run
    folder.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "lefleet", "controller", "exec", str(workdir), run)
    with (folder / CONTROLLER_LOG).open("ab") as log:
        log.write(f"{_STARTED} {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        log.flush()
        process = launch(argv, stdout=log, stderr=log, detached=True)
    # It is not waited for here; the thread collects its exit code if this process lives longer.
    Thread(target=process.wait, daemon=True).start()


def is_controlled(folder: Path) -> bool:
    """Whether the run in `folder` has a running controller."""
    return is_held(folder / CONTROLLER_LOCK)


def last_log_line(folder: Path) -> str:
    """The last line that the newest controller of a run printed; empty when it printed none."""
    log = folder / CONTROLLER_LOG
    text = log.read_text(errors="replace") if log.exists() else ""
    printed = text.rpartition(_STARTED)[2].splitlines()[1:]
    return next((line.strip() for line in reversed(printed) if line.strip()), "")


def _wait_for_exit(folder: Path) -> None:
    """A controller whose run has ended may still be writing its last files."""
    deadline = time.monotonic() + _EXIT_WAIT_S
    while is_controlled(folder):
        if time.monotonic() > deadline:
            raise StageFailed(
                f"The controller of {folder.name} does not exit.", "Kill it, then resume the run."
            )
        time.sleep(0.1)


def _difference(theirs: RunConfig, mine: RunConfig) -> str:
    for name in mine.__struct_fields__:
        if getattr(theirs, name) != getattr(mine, name):
            return f"{name} differs"
    return "equal"
