"""recording.json in a dataset's folder: what a recovery needs while an episode is being saved.

LeRobot overwrites its small files, such as meta/info.json, in place. A kill meanwhile destroys
them, so a copy is made first. The file is removed when a recording ends, and by a recovery.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput, LeFleetError, why_not_a_folder
from lefleet.recording.files import replace_file

FILE = "recording.json"
INFO = "meta/info.json"
OVERWRITTEN = (INFO, "meta/stats.json", "meta/tasks.parquet")
"""Files that LeRobot changes with an episode. It never changes others after their episode."""


class RecordingState(msgspec.Struct, frozen=True, kw_only=True):
    """The dataset after its last finished episode."""

    episodes: int
    small_files: dict[str, bytes]
    """Those of `OVERWRITTEN` that were there, by name."""
    provenance_bytes: int
    """Length of provenance.jsonl."""


def note_state(root: Path, episodes: int, provenance: Path) -> None:
    """Write down how the dataset is now, before something in it changes."""
    paths = {name: root / name for name in OVERWRITTEN}
    state = RecordingState(
        episodes=episodes,
        small_files={name: path.read_bytes() for name, path in paths.items() if path.exists()},
        provenance_bytes=provenance.stat().st_size if provenance.exists() else 0,
    )
    replace_file(root / FILE, msgspec.json.encode(state))


def read_state(root: Path) -> RecordingState | None:
    """None where no recording was killed, and none is going on."""
    path = root / FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=RecordingState)
    except msgspec.DecodeError as error:
        raise LeFleetError(
            f"{path} is damaged: {error}.", "Move it away to use the dataset as it is."
        ) from error


def read_info(root: Path) -> dict[str, Any] | None:
    """LeRobot's description of the dataset; None where a kill has cut it short."""
    try:
        found = json.loads((root / INFO).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def finished_episodes(root: Path) -> int:
    """How many episodes a dataset has, also while it is being recorded and after a kill."""
    if problem := why_not_a_folder(root):
        raise BadInput(f"dataset: {root} {problem}.", "Name the folder of a LeRobotDataset.")
    info = read_info(root)
    if info is None and (state := read_state(root)) is not None:
        return state.episodes
    count = info.get("total_episodes") if info is not None else None
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise BadInput(
            f"dataset: {root} is not a LeRobotDataset (it has no readable {INFO}).",
            "Name the folder that holds data/ and meta/.",
        )
    return count
