"""What a user calls a checkpoint, to the folder or hub id that it is: one rule for all commands.

    contains /, or begins with ~ or .   a folder; where there is none, a hub id as user/name
    blessed                             the blessed checkpoint of the newest run that has one
    RUN, RUN:blessed                    the run's blessed checkpoint
    RUN:CYCLE                           the checkpoint that this cycle trained
    any other name                      a folder in the current directory

A run wins over a folder of the same name, with a note that says so: `./demo` is the folder.
"""

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lefleet.cli.parse import absolute
from lefleet.errors import MISSING, BadInput, why_not_a_folder
from lefleet.ledger import Ledger, RunRow, read_ledger
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import newest_blessed
from lefleet.loop.state import read_state
from lefleet.stages.references import is_hub_id


@dataclass(frozen=True, kw_only=True)
class NamedCheckpoint:
    """A checkpoint as stages and servers take it. Its files may still be missing."""

    location: str
    """Absolute path of a folder, or a hub id."""
    origin: Literal["run", "folder", "hub"]
    name: str
    """Printable: `demo:blessed`, `demo:1`, the folder's path, or the hub id."""
    run: str = ""
    """Name of the run, where the origin is one."""
    note: str = ""
    """How an ambiguous name was understood."""


def choose_checkpoint(name: str, workdir: Path, field: str) -> NamedCheckpoint:
    """As `resolve_checkpoint`, with its note on stderr."""
    found = resolve_checkpoint(name, workdir, field)
    if found.note:
        print(f"lefleet: {found.note}", file=sys.stderr)
    return found


def resolve_checkpoint(name: str, workdir: Path, field: str) -> NamedCheckpoint:
    """The checkpoint that `name` stands for; `field` is what the command calls it."""
    workdir, folder = absolute(workdir, "workdir"), absolute(name, field)
    if "/" not in name and not name.startswith(("~", ".")):
        if (found := _of_run(name, workdir, field)) is not None:
            return found
        if problem := why_not_a_folder(folder):
            with closing(read_ledger(workdir)) as ledger:
                raise BadInput(f"{field}: {name} {problem}.", _remedy(ledger, workdir))
    elif why_not_a_folder(folder) == MISSING and is_hub_id(name) and not name.startswith("."):
        return NamedCheckpoint(location=name, origin="hub", name=name)
    return NamedCheckpoint(location=str(folder), origin="folder", name=name)


def _of_run(name: str, workdir: Path, field: str) -> NamedCheckpoint | None:
    """None where `name` can only be a folder."""
    run, colon, which = name.rpartition(":") if ":" in name else (name, "", "blessed")
    with closing(read_ledger(workdir)) as ledger:
        if name == "blessed":
            newest = newest_blessed(ledger)
            if newest is None:
                raise BadInput(
                    f"{field}: no run in {workdir} has a blessed checkpoint.", "See: lefleet status"
                )
            row, checkpoint = newest
            run, location = row.id, checkpoint.path
        elif (found := ledger.run(run)) is not None:
            location = _location(ledger, found, which, workdir, field)
        elif colon and why_not_a_folder(name):
            raise BadInput(
                f"{field}: there is no run called {run} in {workdir}.", _remedy(ledger, workdir)
            )
        else:
            return None
    is_other_folder = not why_not_a_folder(name) and Path(name).resolve() != workdir / name
    note = f"{name} is both a run and a folder; using the run. For the folder, write ./{name}"
    return NamedCheckpoint(
        location=location,
        origin="run",
        name=f"{run}:{which}",
        run=run,
        note=note if is_other_folder else "",
    )


def _location(ledger: Ledger, row: RunRow, which: str, workdir: Path, field: str) -> str:
    if which == "blessed":
        blessed = read_state(ledger, row).blessed()
        if blessed is None:
            raise BadInput(
                f"{field}: {row.id} has no blessed checkpoint yet.",
                f"Name a cycle, such as {row.id}:0, or see: lefleet status {row.id}",
            )
        return blessed.path
    if not which.isdecimal():
        raise BadInput(
            f"{field}: {which} is not a cycle of {row.id}.",
            f"Write {row.id}:2 or {row.id}:blessed.",
        )
    folder = stage_folder(workdir / row.id, int(which), "train")
    if not folder.is_dir():
        raise BadInput(
            f"{field}: {row.id} has trained no checkpoint in cycle {which}.",
            f"See: lefleet status {row.id}",
        )
    return str(folder)


def _remedy(ledger: Ledger, workdir: Path) -> str:
    names = ", ".join(row.id for row in ledger.runs()) or "none"
    return (
        "Name a run, RUN:CYCLE, blessed, a checkpoint's folder, or a hub id as user/name. "
        f"Runs in {workdir}: {names}."
    )
