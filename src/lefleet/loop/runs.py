"""Start, find and stop runs: what a command does before it becomes a viewer."""

import logging
import sys
import time
from pathlib import Path

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
_LEAVING_S = 60.0
"""How long a controller whose run has ended may take to leave."""


def begin(ledger: Ledger, workdir: Path, config: RunConfig) -> str:
    """Create the run, or find the one of that name, and see that a controller is at work.

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
    """See that a controller is at work on an unfinished run: attached, resumed or finished."""
    folder = workdir / row.id
    if row.state != "running":
        _wait_until_alone(folder)
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
    """Stop a run and wait until its controller is gone; the state in which the run ended."""
    ledger.request_stop(row.id)
    folder = workdir / row.id
    while row.state == "running" or is_controlled(folder):
        if is_controlled(folder):
            time.sleep(0.2)
        else:
            # Nobody is there to stop it, so this process does what a controller would.
            Controller(workdir, row.id).run()
        row = find(ledger, row.id)
    return row.state


def find(ledger: Ledger, run: str) -> RunRow:
    """The run of that name; BadInput names those that there are."""
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
    """Start a controller that outlives this process; one that finds another at work leaves."""
    folder = workdir / run
    folder.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "lefleet", "controller", "exec", str(workdir), run)
    with (folder / CONTROLLER_LOG).open("ab") as log:
        log.write(f"{_STARTED} {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        log.flush()
        launch(argv, stdout=log, stderr=log, detached=True)


def is_controlled(folder: Path) -> bool:
    """Whether a controller is at work on the run in `folder`."""
    return is_held(folder / CONTROLLER_LOCK)


def last_words(folder: Path) -> str:
    """The last line that the newest controller of a run said; empty when it said nothing."""
    log = folder / CONTROLLER_LOG
    text = log.read_text(errors="replace") if log.exists() else ""
    said = text.rpartition(_STARTED)[2].splitlines()[1:]
    return next((line.strip() for line in reversed(said) if line.strip()), "")


def _wait_until_alone(folder: Path) -> None:
    """A controller whose run has ended still has its last files to write."""
    deadline = time.monotonic() + _LEAVING_S
    while is_controlled(folder):
        if time.monotonic() > deadline:
            raise StageFailed(
                f"The controller of {folder.name} does not leave.", "End it by hand, then go on."
            )
        time.sleep(0.1)


def _difference(theirs: RunConfig, mine: RunConfig) -> str:
    for name in mine.__struct_fields__:
        if getattr(theirs, name) != getattr(mine, name):
            return f"{name} differs"
    return "equal"
