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
    stamp,
)

_MOST_EPISODES = 200_000
"""Of one dataset, and in all that are kept."""

type _Stamp = tuple[int, int, int]


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
            names = self._names(info)
            if wanted is None:
                return self._entries(names)
            numbers = list(wanted)
            if len(names) >= info.total_episodes:
                # Each episode has a file of its own, and these have the same order.
                found = self._entries([names[at] for at in numbers if at < len(names)])
                if all(number in found for number in numbers):
                    return {number: found[number] for number in numbers}
            found = self._entries(names)
            return {number: found[number] for number in numbers if number in found}

    def _names(self, info: LeRobotInfo) -> list[str]:
        """Every file of metadata, in order; forgets what was read of others."""
        if self._cameras != (cameras := info.cameras("video")):
            self._cameras, self._read = cameras, {}
        folder = self._root / EPISODES
        try:
            chunks = sorted(one for one in folder.iterdir() if one.is_dir())
            names = [
                f"{chunk.name}/{name}"
                for chunk in chunks
                for name in sorted(os.listdir(chunk))  # noqa: PTH208 - many names, no paths
                if name.endswith(".parquet") and not name.startswith(".")
            ]
        except FileNotFoundError:
            if info.total_episodes:
                raise BadInput(f"{EPISODES}: it is missing.") from None
            names = []
        except OSError as error:
            raise BadInput(f"{EPISODES}: it cannot be read: {error.strerror}.") from error
        if len(self._read) > len(names):
            self._read = {name: self._read[name] for name in names if name in self._read}
        return names

    def _entries(self, names: Iterable[str]) -> dict[int, EpisodeEntry]:
        """A file that cannot be read is left out: it may be complete the next time."""
        found: dict[int, EpisodeEntry] = {}
        for name in names:
            path = self._root / EPISODES / name
            mark, known = stamp(path), self._read.get(name)
            if known is None or known[0] != mark:
                try:
                    known = (mark, read_entries(path, self._cameras))
                except BadInput:
                    self._read.pop(name, None)
                    continue
                self._read[name] = known
            found |= {entry.index: entry for entry in known[1]}
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
