"""Which episodes a dataset has and where their frames are, read as far as a page needs it.

A robot's recording has one metadata file per episode. Reading ten thousand of them takes many
seconds, so only those of the episodes that are shown are read, and kept until they change.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from lefleet.errors import BadInput
from lefleet.queries.dataset_files import (
    EPISODES,
    EpisodeEntry,
    LeRobotInfo,
    read_entries,
)

_MOST_EPISODES = 200_000
"""Of one dataset, and in all that are kept."""

type _Stamp = tuple[int, int]


class EpisodeIndex:
    """The episodes of one dataset. Any thread may ask; a lock guards what was read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._cameras: list[str] = []
        self._read: dict[str, tuple[_Stamp, list[EpisodeEntry]]] = {}

    def __len__(self) -> int:
        """Episodes that were read."""
        return sum(len(entries) for _, entries in list(self._read.values()))

    def find(self, info: LeRobotInfo, wanted: Iterable[int] | None) -> dict[int, EpisodeEntry]:
        """Those of the `wanted` episodes whose metadata can be read; all by default."""
        if info.total_episodes > _MOST_EPISODES:
            raise BadInput(
                f"It has {info.total_episodes} episodes, and at most {_MOST_EPISODES} are shown."
            )
        with self._lock:
            files = self._files(info)
            names = list(files)
            if wanted is None:
                return self._entries(files, names)
            numbers = list(wanted)
            # Where each episode has a file of its own, they have the same order.
            likely = [names[at] for at in numbers if at < len(names)]
            if len(names) >= info.total_episodes:
                found = self._entries(files, likely)
                if all(number in found for number in numbers):
                    return {number: found[number] for number in numbers}
            found = self._entries(files, names)
            return {number: found[number] for number in numbers if number in found}

    def _files(self, info: LeRobotInfo) -> dict[str, _Stamp]:
        """Every file of metadata, in the order of their names; forgets what was read of others."""
        if self._cameras != (cameras := info.cameras("video")):
            self._cameras, self._read = cameras, {}
        found: dict[str, _Stamp] = {}
        folder = self._root / EPISODES
        try:
            for chunk in sorted(folder.iterdir()):
                if not chunk.is_dir():
                    continue
                with os.scandir(chunk) as entries:
                    files = sorted(entries, key=lambda one: one.name)
                for one in files:
                    if one.name.endswith(".parquet") and not one.name.startswith("."):
                        state = one.stat()
                        found[f"{chunk.name}/{one.name}"] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:
            if info.total_episodes:
                raise BadInput(f"{EPISODES}: it is missing.") from None
        except OSError as error:
            raise BadInput(f"{EPISODES}: it cannot be read: {error.strerror}.") from error
        self._read = {name: one for name, one in self._read.items() if found.get(name) == one[0]}
        return found

    def _entries(self, files: dict[str, _Stamp], names: Iterable[str]) -> dict[int, EpisodeEntry]:
        """A file that cannot be read is left out: it may be complete the next time."""
        found: dict[int, EpisodeEntry] = {}
        for name in names:
            if name not in self._read:
                try:
                    entries = read_entries(self._root / EPISODES / name, self._cameras)
                except BadInput:
                    continue
                self._read[name] = (files[name], entries)
            found |= {entry.index: entry for entry in self._read[name][1]}
        return found


_KEPT: OrderedDict[Path, EpisodeIndex] = OrderedDict()
_KEPT_LOCK = Lock()


def index_of(root: Path) -> EpisodeIndex:
    """The same one as long as it is among the newest, so that little is read twice."""
    with _KEPT_LOCK:
        index = _KEPT.setdefault(root, EpisodeIndex(root))
        _KEPT.move_to_end(root)
        while len(_KEPT) > 1 and sum(map(len, _KEPT.values())) > _MOST_EPISODES:
            _KEPT.popitem(last=False)
        return index
