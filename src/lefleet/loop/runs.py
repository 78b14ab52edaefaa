"""Start, find and stop runs: what a command does before it becomes a viewer."""

import sys
from pathlib import Path

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow
from lefleet.loop.attempt import cancel
from lefleet.loop.controller import LOCK
from lefleet.process import is_held, launch
from lefleet.records import RunConfig

CONTROLLER_LOG = "controller.log"


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
    theirs = msgspec.convert(row.config, RunConfig)
    if theirs != config:
        raise BadInput(
            f"name: there is a run called {config.name} with another config "
            f"({_difference(theirs, config)}).",
            "Give this one another --name, or continue that one: lefleet resume " + config.name,
        )
    return resume(ledger, workdir, row)


def resume(ledger: Ledger, workdir: Path, row: RunRow) -> str:
    """See that a controller is at work on an unfinished run: attached, resumed or finished."""
    if row.state == "finished":
        return "finished"
    if is_controlled(workdir / row.id):
        return "attached"
    ledger.resume_run(row.id)
    start_controller(workdir, row.id)
    return "resumed"


def find(ledger: Ledger, run: str) -> RunRow:
    """The run of that name; BadInput names those that there are."""
    row = ledger.run(run)
    if row is None:
        names = ", ".join(one.id for one in ledger.runs()) or "none"
        raise BadInput(f"run: there is no run called {run}.", f"Runs here: {names}.")
    return row


def start_controller(workdir: Path, run: str) -> None:
    """Start a controller that outlives this process; one that finds another at work leaves."""
    folder = workdir / run
    folder.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "lefleet", "controller", "exec", str(workdir), run)
    with (folder / CONTROLLER_LOG).open("ab") as log:
        launch(argv, stdout=log, stderr=log, detached=True)


def is_controlled(folder: Path) -> bool:
    """Whether a controller is at work on the run in `folder`."""
    return is_held(folder / LOCK)


def end_processes(folder: Path) -> None:
    """End every stage process of the run in `folder`, where no controller does it."""
    for stage in folder.glob("cycle_*/*"):
        cancel(stage)


def _difference(theirs: RunConfig, mine: RunConfig) -> str:
    for name in mine.__struct_fields__:
        if getattr(theirs, name) != getattr(mine, name):
            return f"{name} differs"
    return "equal"
