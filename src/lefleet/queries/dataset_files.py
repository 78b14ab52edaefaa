"""Files of a LeRobotDataset, read without LeRobot: what it says of itself, episodes, frames.

Datasets may come from anybody. What is in them is data: sizes are limited, paths stay inside the
folder, and what cannot be read is a `BadInput` that says why.
"""

import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from lefleet.errors import BadInput
from lefleet.recording.state import FILE as RECORDING
from lefleet.recording.state import INFO, read_info, read_state

if TYPE_CHECKING:
    import pyarrow as pa

EPISODES = "meta/episodes"
TASKS = "meta/tasks.parquet"
_LARGEST_INFO = 16_000_000
_LARGEST_FILE = 1 << 40
_LARGEST_TABLE = 256_000_000
"""Bytes in memory: a small file may unpack to very many."""
_LONGEST_TEXT = 1000
_PLACE = re.compile(r"\{(video_key|chunk_index|file_index)(?::0(\d)d)?\}")
_VERSION = "v3."

type _Count = Annotated[int, Meta(ge=0, le=2**53)]


class LeRobotFeature(msgspec.Struct, frozen=True):
    """A column of the data."""

    dtype: str
    shape: tuple[_Count, ...] = ()
    names: Any = None

    def column_names(self, prefix: str, width: int) -> list[str]:
        """One for each value; numbered where the dataset does not say."""
        names = self.names
        if isinstance(names, dict):  # As some datasets have it: {"motors": [...]}.
            names = next(iter(names.values()), None)
        if isinstance(names, list) and len({*map(str, names)}) == len(names) == width:
            return [shown(str(one)) for one in names]
        return [f"{prefix}.{at}" for at in range(width)]


class LeRobotInfo(msgspec.Struct, frozen=True):
    """meta/info.json, as far as it is needed here."""

    codebase_version: str
    fps: Annotated[float, Meta(gt=0, le=100_000)]
    features: dict[str, LeRobotFeature]
    total_episodes: _Count
    total_frames: _Count = 0
    data_path: str = ""
    video_path: str | None = None
    robot_type: str | None = None

    def cameras(self, *dtypes: str) -> list[str]:
        return [key for key, one in self.features.items() if one.dtype in dtypes]


class VideoPart(NamedTuple):
    """Where the film of an episode is."""

    chunk: int
    file: int
    from_s: float
    to_s: float


class EpisodeEntry(msgspec.Struct, frozen=True):
    """What the metadata say of an episode."""

    index: int
    tasks: tuple[str, ...]
    length: int
    data: tuple[int, int]
    """Chunk and file."""
    videos: dict[str, VideoPart]
    """By camera."""


def shown(text: str) -> str:
    """Text of others: valid UTF-8, and not endless."""
    plain = text.encode("utf-8", "replace").decode()
    return plain if len(plain) <= _LONGEST_TEXT else plain[: _LONGEST_TEXT - 1] + "…"


def read_lerobot_info(root: Path) -> LeRobotInfo:
    """Also while the dataset is being recorded, and after a kill."""
    try:
        content = _small_file(root / INFO)
        is_cut = not content or read_info(root) is None
        if is_cut and (state := read_state(root)) is not None:
            content = state.small_files.get(INFO, b"")
        info = msgspec.json.decode(content, type=LeRobotInfo)
    except OSError as error:
        raise BadInput(f"{INFO}: it cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"{INFO}: {first_line(error)}.") from error
    if not info.codebase_version.startswith(_VERSION):
        version = shown(info.codebase_version)[:40]
        raise BadInput(
            f"{INFO}: codebase_version is {version}, not {_VERSION}0.",
            "Convert it: python -m lerobot.scripts.convert_dataset_v21_to_v30",
        )
    return info


def _small_file(path: Path) -> bytes:
    require_file(path, _LARGEST_INFO)
    return path.read_bytes()


def require_file(path: Path, most: int) -> None:
    """BadInput for what is no plain file, such as a pipe that nobody writes to, or is too large."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"{path.name}: it is not a file.")
    if found.st_size > most:
        raise BadInput(f"{path.name}: it is too large ({found.st_size / 1e6:.0f} MB).")


def is_recording(root: Path) -> bool:
    """Whether it is being recorded, or a kill ended the recording."""
    return (root / RECORDING).exists()


def read_tasks(root: Path) -> list[str]:
    """Every task text; none where there is no file yet."""
    if not (root / TASKS).exists():
        return []
    table = read_table(root / TASKS)
    columns = [name for name in ("task", "__index_level_0__") if name in table.column_names]
    if not columns:
        raise BadInput(f"{TASKS}: it has no tasks.")
    return [shown(str(one)) for one in table.column(columns[0]).to_pylist()]


def read_entries(path: Path, cameras: Sequence[str]) -> list[EpisodeEntry]:
    """The episodes of one file of meta/episodes."""
    names = ["episode_index", "tasks", "length", "data/chunk_index", "data/file_index"]
    fields = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
    videos = [f"videos/{camera}/{field}" for camera in cameras for field in fields]
    return [_entry(row, cameras) for row in read_table(path, [*names, *videos]).to_pylist()]


def _entry(row: dict[str, Any], cameras: Sequence[str]) -> EpisodeEntry:
    try:
        tasks = row.get("tasks") or ()
        return EpisodeEntry(
            index=int(row["episode_index"]),
            tasks=tuple(shown(one) for one in ([tasks] if isinstance(tasks, str) else tasks)),
            length=max(0, int(row["length"])),
            data=(int(row["data/chunk_index"]), int(row["data/file_index"])),
            videos={
                camera: VideoPart(
                    int(row[f"videos/{camera}/chunk_index"]),
                    int(row[f"videos/{camera}/file_index"]),
                    *_span(row, camera),
                )
                for camera in cameras
                if row.get(f"videos/{camera}/file_index") is not None
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{EPISODES}: a value is missing or of another type ({error}).") from error


def _span(row: dict[str, Any], camera: str) -> tuple[float, float]:
    from_s, to_s = (float(row[f"videos/{camera}/{end}_timestamp"]) for end in ("from", "to"))
    if not 0 <= from_s <= to_s < float("inf"):
        raise ValueError(f"{camera} from {from_s:g} to {to_s:g} s")
    return from_s, to_s


def read_table(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """Those of `columns` that the file has; all of them by default."""
    return _read(path, columns, None)


def read_frames(path: Path, episode: int, columns: Sequence[str]) -> "pa.Table":
    """The rows of one episode in a file of data."""
    import pyarrow.compute as pc

    table = _read(path, ["episode_index", *columns], episode)
    return table.filter(pc.equal(table.column("episode_index"), episode))


def _read(path: Path, columns: Sequence[str] | None, episode: int | None) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        require_file(path, _LARGEST_FILE)
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = names if columns is None else [one for one in columns if one in names]
            missing = {"episode_index"} & {*(columns or ())} - {*names}
            if missing:
                raise BadInput(f"{path.name}: it has no episode_index.")
            groups = _groups(file.metadata, episode)
            _require_small(file.metadata, groups, wanted, path)
            return file.read_row_groups(groups, columns=wanted)
    except FileNotFoundError as error:
        raise BadInput(f"{path.name}: it is missing.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path.name}: it cannot be read: {first_line(error)}.") from error


def _groups(metadata: Any, episode: int | None) -> list[int]:
    """Row groups that may hold frames of the episode: files of many episodes have many."""
    every = list(range(metadata.num_row_groups))
    if episode is None:
        return every
    return [at for at in every if _may_hold(metadata.row_group(at), episode)]


def _may_hold(group: Any, episode: int) -> bool:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == "episode_index":
            known = column.statistics
            is_known = known is not None and known.has_min_max
            return not is_known or known.min <= episode <= known.max
    return True


def _require_small(
    metadata: Any, groups: Iterable[int], columns: Sequence[str], path: Path
) -> None:
    total = 0
    for at in groups:
        group = metadata.row_group(at)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema.split(".list.")[0].split(".element")[0] in columns:
                total += max(column.total_uncompressed_size, 8 * column.num_values)
    if total > _LARGEST_TABLE:
        raise BadInput(f"{path.name}: it is too large to be shown ({total / 1e6:.0f} MB).")


def path_in(root: Path, template: str, place: tuple[int, int], camera: str = "") -> Path:
    """The file that a template of info.json names; BadInput where it leads out of the dataset."""
    values = {"video_key": camera, "chunk_index": place[0], "file_index": place[1]}

    def value(found: re.Match[str]) -> str:
        return str(values[found[1]]).zfill(int(found[2] or 0))

    path = root / _PLACE.sub(value, template)
    try:
        folder, target = root.resolve(), path.resolve()
        folders = [folder]
        if folder.parent.name == "snapshots":  # Of the hub's cache, which links to its blobs.
            folders.append(folder.parents[1] / "blobs")
        is_inside = any(target.is_relative_to(one) for one in folders)
    except (OSError, RuntimeError, ValueError):
        is_inside = False
    if not is_inside:
        raise BadInput(f"{INFO}: {shown(template)[:80]} leads out of the dataset.")
    return path


def first_line(error: BaseException) -> str:
    """Of its text, without paths that say nothing to a person."""
    lines = str(error).splitlines()
    return shown(lines[0] if lines else type(error).__name__).rstrip(".")


def stamp(path: Path) -> tuple[int, int, int]:
    """Changes when the file does; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
