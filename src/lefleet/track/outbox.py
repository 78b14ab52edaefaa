"""What is logged already, and that a process logs the rest."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lefleet.errors import LeFleetError
from lefleet.ledger import Ledger
from lefleet.process.errand import see_to_errand
from lefleet.records import Tracker
from lefleet.track.names import FOLDER

_LOGGER = logging.getLogger(__name__)
LOCK = ".track.lock"
"""In the folder of a run: held by its sender, whose process id is its content."""
LOG = "track.log"
STATE = "state.json"
"""How many decisions each tracker is done with."""


def track_new(ledger: Ledger, workdir: Path, run: str, trackers: Sequence[Tracker]) -> None:
    """See that all decisions of a run are logged. Returns at once.

    It is cheap where nothing has happened. What keeps it from its work is a warning: a run does
    not fail because nothing could be logged, and the next call tries again.
    """
    if not trackers:
        return
    try:
        if pending(ledger, workdir / run, run, trackers):
            argv = (sys.executable, "-m", "lefleet", "track", "exec", str(workdir), run)
            see_to_errand(argv, workdir / run / LOCK, workdir / run / LOG)
    except (LeFleetError, OSError) as error:
        _LOGGER.warning("%s is not logged to %s: %s", run, ", ".join(trackers), error)


def pending(ledger: Ledger, folder: Path, run: str, trackers: Sequence[Tracker]) -> list[Tracker]:
    """The trackers that do not have the newest decision yet."""
    decided, done = decisions(ledger, run), handled(folder)
    return [one for one in trackers if done.get(one, 0) < decided]


def decisions(ledger: Ledger, run: str) -> int:
    """How many there are."""
    newest = ledger.feed.recent(run, kinds=("decision",), limit=1)
    return newest[0].data["cycle"] + 1 if newest else 0


def handled(folder: Path) -> dict[str, int]:
    """Decisions that each tracker is done with: logged, or given up until the next one."""
    try:
        return msgspec.json.decode((folder / FOLDER / STATE).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.MsgspecError):
        # Everything is logged again, which changes nothing in any tracker.
        return {}


def set_handled(folder: Path, tracker: Tracker, count: int) -> None:
    """Only the process with the lock calls it."""
    file = folder / FOLDER / STATE
    file.parent.mkdir(exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode({**handled(folder), tracker: count}))
    partial.replace(file)
