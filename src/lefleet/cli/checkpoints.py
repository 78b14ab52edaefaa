"""What a user calls a checkpoint, to the folder or hub id that it is."""

from pathlib import Path

from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow, read_ledger
from lefleet.ledger.connect import FILE as LEDGER_FILE
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import find
from lefleet.loop.runs import newest_blessed as newest_blessed_run
from lefleet.loop.state import read_state
from lefleet.stages.references import is_hub_id

_REMEDY = "Name a checkpoint's folder, RUN, RUN:CYCLE, blessed, or a hub id as user/name."


def checkpoint_named(name: str, workdir: Path, field: str) -> str:
    """A path, as it is; `RUN`, `RUN:CYCLE`, `RUN:blessed` or `blessed` as the ledger has it.

    A run stands for its blessed checkpoint.
    """
    if Path(name).exists():
        return str(Path(name).resolve())
    run, colon, which = name.rpartition(":")
    if not colon and which != "blessed":
        if is_hub_id(name):
            return name
        if not _is_run(name, workdir):
            raise BadInput(f"{field}: {name} does not exist.", _REMEDY)
        run, which = name, "blessed"
    ledger = _ledger(name, workdir, field)
    row = find(ledger, run) if run else _newest_blessed(ledger, field)
    if which == "blessed":
        return _blessed(ledger, row, field)
    if not which.isdigit():
        raise BadInput(f"{field}: {which} is no cycle of {run}.", "Write RUN:2 or RUN:blessed.")
    folder = stage_folder(workdir / row.id, int(which), "train")
    if not folder.is_dir():
        raise BadInput(f"{field}: {run} has trained no checkpoint in cycle {which}.")
    return str(folder)


def newest_blessed(workdir: Path, field: str) -> str:
    """Name of the run that `blessed` stands for."""
    return _newest_blessed(_ledger("blessed", workdir, field), field).id


def _is_run(name: str, workdir: Path) -> bool:
    return read_ledger(workdir).run(name) is not None


def _ledger(name: str, workdir: Path, field: str) -> Ledger:
    if not (workdir / LEDGER_FILE).exists():
        raise BadInput(
            f"{field}: {name} speaks of a run, but {workdir} has no ledger.", "Name its --workdir."
        )
    return read_ledger(workdir)


def _blessed(ledger: Ledger, row: RunRow, field: str) -> str:
    blessed = read_state(ledger, row).blessed()
    if blessed is None:
        raise BadInput(f"{field}: {row.id} has no blessed checkpoint yet.")
    return blessed.path


def _newest_blessed(ledger: Ledger, field: str) -> RunRow:
    if (found := newest_blessed_run(ledger)) is None:
        raise BadInput(f"{field}: no run here has a blessed checkpoint.", "See: lefleet status")
    return found[0]
