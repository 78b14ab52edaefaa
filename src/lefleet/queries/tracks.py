"""What a robot measured and was told over an episode, as lines of a plot."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lefleet.queries.dataset_files import EpisodeEntry, LeRobotInfo, path_in, read_frames
from lefleet.records.border import Strict

if TYPE_CHECKING:
    import pyarrow as pa

TrackKind = Literal["state", "action"]
_COLUMNS: dict[TrackKind, str] = {"state": "observation.state", "action": "action"}
_MOST_POINTS = 500
_MOST_TRACKS = 64
"""Of one kind."""


class Track(Strict, frozen=True, kw_only=True):
    """One value over time."""

    name: str
    """Of the joint or motor."""
    kind: TrackKind
    values: tuple[float | None, ...]
    """None where it is not a number."""


class Tracks(Strict, frozen=True, kw_only=True):
    """All values at the same times; of a long episode, every so many frames."""

    seconds: tuple[float, ...] = ()
    """Since the episode's begin."""
    tracks: tuple[Track, ...] = ()


def read_tracks(root: Path, info: LeRobotInfo, entry: EpisodeEntry) -> Tracks:
    """BadInput where the frames cannot be read."""
    path = path_in(root, info.data_path, entry.data)
    columns = [key for key in _COLUMNS.values() if key in info.features]
    frames = read_frames(path, entry.index, ["frame_index", *columns])
    count = frames.num_rows
    some = _spread(count)
    frames = frames.take(some)
    numbers = some
    if "frame_index" in frames.column_names:
        numbers = [int(one or 0) for one in frames.column("frame_index").to_pylist()]
    found = [
        track
        for kind, key in _COLUMNS.items()
        if key in frames.column_names
        for track in _tracks(frames, kind, key, info)
    ]
    return Tracks(
        seconds=tuple(round(number / info.fps, 4) for number in numbers), tracks=tuple(found)
    )


def _spread(count: int) -> list[int]:
    """At most so many of the rows, with the first and the last."""
    if count <= _MOST_POINTS:
        return list(range(count))
    step = (count - 1) / (_MOST_POINTS - 1)
    return [round(at * step) for at in range(_MOST_POINTS)]


def _tracks(frames: "pa.Table", kind: TrackKind, key: str, info: LeRobotInfo) -> list[Track]:
    rows = [_values(row) for row in frames.column(key).to_pylist()]
    width = min(_MOST_TRACKS, max(map(len, rows), default=0))
    names = info.features[key].column_names(kind, max(map(len, rows), default=0))
    return [
        Track(
            name=names[at],
            kind=kind,
            values=tuple(_number(row[at]) if at < len(row) else None for row in rows),
        )
        for at in range(width)
    ]


def _values(row: Any) -> list[Any]:
    """A row of a column, which holds a list, or a number where there is only one."""
    return row if isinstance(row, list) else [row]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if is_number else None
