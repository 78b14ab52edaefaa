"""Which episodes of a killed recording are finished, and making it loadable again.

An episode is finished when the file with its metadata is: it is closed last. Whatever belongs to no
finished episode is removed, and small files that were being overwritten are restored.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.errors import LeFleetError
from lefleet.recording import provenance
from lefleet.recording.files import NEW, FolderLock, cut, replace_file
from lefleet.recording.labels import take_back_unfinished
from lefleet.recording.state import (
    FILE,
    INFO,
    OVERWRITTEN,
    RecordingState,
    finished_episodes,
    read_info,
    read_state,
)

__all__ = ["finished_episodes", "recover", "settle"]

_LOG = logging.getLogger(__name__)


class _EpisodeFiles(NamedTuple):
    """What one file of LeRobot's metadata says."""

    metadata: Path
    episodes: frozenset[int]
    others: frozenset[Path]
    """Data and videos of these episodes."""


def recover(root: Path) -> int | None:
    """Make a killed recording loadable; how many episodes it has, None if there was nothing to do.

    Nothing happens to a dataset whose recording ended properly. One that is being recorded is
    refused.
    """
    if not (root / FILE).exists():
        return None
    lock = FolderLock(root)
    try:
        state = read_state(root)
        if state is None:
            return None
        finished = settle(root, state)
        (root / FILE).unlink()
    finally:
        lock.release()
    _LOG.info("Recovered a recording that was killed: %s has %d episodes", root, finished)
    return finished


def settle(root: Path, state: RecordingState) -> int:
    """Leave exactly the finished episodes in the dataset; how many there are.

    The folder's lock must be held, and no file of the dataset be open to write.
    """
    known = list(_readable_metadata(root, state))
    there = {number for one in known for number in one.episodes}
    finished = len(there)
    if there != set(range(finished)) or _counted(root) != finished:
        finished = state.episodes
        _require_only_one_more(root, there, finished)
    kept = [one for one in known if one.episodes and max(one.episodes) < finished]
    _remove_others(root, kept)
    if finished == state.episodes:
        _restore(root, state)
    take_back_unfinished(root, finished)
    return finished


def _readable_metadata(root: Path, state: RecordingState) -> Iterator[_EpisodeFiles]:
    """Of every metadata file that was closed; one that was being written has no footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    info = json.loads(state.small_files[INFO])
    for path in sorted((root / "meta/episodes").glob("*/*.parquet")):
        try:
            names = [name for name in pq.read_schema(path).names if not name.startswith("stats/")]
            rows = pq.read_table(path, columns=names).to_pylist()
        except pa.ArrowInvalid:
            continue
        files = {root / name for row in rows for name in _files_of(row, info)}
        episodes = frozenset(int(row["episode_index"]) for row in rows)
        yield _EpisodeFiles(path, episodes, frozenset(files))


def _files_of(row: dict[str, Any], info: dict[str, Any]) -> Iterator[str]:
    yield info["data_path"].format(
        chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
    )
    for column, file_index in row.items():
        key = column.removeprefix("videos/").removesuffix("/file_index")
        if column == f"videos/{key}/file_index":
            yield info["video_path"].format(
                video_key=key, chunk_index=row[f"videos/{key}/chunk_index"], file_index=file_index
            )


def _counted(root: Path) -> int:
    """Episodes according to LeRobot's info.json; -1 where a kill has cut it short."""
    info = read_info(root)
    return -1 if info is None else int(info.get("total_episodes", -1))


def _require_only_one_more(root: Path, there: set[int], finished: int) -> None:
    """Remove nothing of a dataset that is in a state which a kill does not explain."""
    missing = sorted(set(range(finished)) - there)
    if missing or there - set(range(finished + 1)):
        what = f"metadata of episode {missing[0]} is missing" if missing else "it was changed since"
        raise LeFleetError(
            f"{root} cannot be recovered: {what}.", f"Move {FILE} away to use it as it is."
        )


_WRITTEN = (
    "meta/episodes/chunk-*/file-*.parquet",
    "data/chunk-*/file-*.parquet",
    "videos/*/chunk-*/file-*.mp4",
    f"**/{NEW}",
)
"""What LeRobot and this package write; other files in the folder are somebody's own."""
_RANDOM = 8
"""Letters that `tempfile` adds to a name."""


def _remove_others(root: Path, kept: list[_EpisodeFiles]) -> None:
    named = {path for one in kept for path in (one.metadata, *one.others)}
    for path in [path for pattern in _WRITTEN for path in root.glob(pattern)]:
        if path not in named:
            path.unlink()
    encoding = (folder for folder in root.glob("tmp*") if _is_of_an_encoder(folder))
    for folder in (root / "images", *encoding):
        if folder.is_dir():
            shutil.rmtree(folder)


def _is_of_an_encoder(folder: Path) -> bool:
    """Whether LeRobot encodes a video there: named by `tempfile`, and nothing else is in it."""
    is_named_so = len(folder.name) == len("tmp") + _RANDOM and folder.is_dir()
    return is_named_so and all(path.suffix == ".mp4" for path in folder.iterdir())


def _restore(root: Path, state: RecordingState) -> None:
    for name in OVERWRITTEN:
        path, content = root / name, state.small_files.get(name)
        if content is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != content:
            replace_file(path, content)
    if (root / provenance.FILE).exists():
        cut(root / provenance.FILE, state.provenance_bytes)
