"""The trackers: whether they are installed, and where they write."""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from lefleet.errors import BadInput
from lefleet.records import Tracker

PROJECT = "lefleet"
"""Under which all runs are found in a tracker."""
FOLDER = "track"
"""In the folder of a run."""
TRACKIO_DIR = "TRACKIO_DIR"
"""Variable that says where trackio keeps its data."""
_INSTALL = "scripts/bootstrap, or: pip install 'lefleet[track]'"


def require_trackers(trackers: Iterable[Tracker]) -> None:
    """Raise BadInput where a tracker is not there, or is named twice."""
    named = list(trackers)
    for tracker in named:
        if named.count(tracker) > 1:
            raise BadInput(f"track: {tracker} is named twice.", "Name it once.")
        if find_spec(tracker) is None:
            raise BadInput(f"track: {tracker} is not installed.", f"Run: {_INSTALL}")


def trackio_folder(workdir: Path) -> Path:
    """Where trackio keeps its data: as the user's variable says, else in the work folder."""
    return Path(os.environ.get(TRACKIO_DIR) or workdir / ".trackio").absolute()


def wandb_folder(run_folder: Path) -> Path:
    """Where the files of W&B are: a folder for each series."""
    return run_folder / FOLDER / "wandb"


def show_command(tracker: Tracker, workdir: Path, run: str) -> str:
    """What a person types to see a run."""
    if tracker == "trackio":
        folder = quote(str(trackio_folder(workdir)))
        return f"{TRACKIO_DIR}={folder} trackio show --project {PROJECT}"
    return f"wandb sync {quote(str(wandb_folder(workdir / run)))}/*/wandb/offline-run-*"
