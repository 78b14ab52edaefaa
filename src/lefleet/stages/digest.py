"""Content digests: the same digest means the same data, or the same behaviour."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

from lefleet.errors import BadInput
from lefleet.records.profile import ENVELOPE_FILE

_BOOKKEEPING = ("index", "episode_index", "task_index", "timestamp", "frame_index")
_NOT_FOR_INFERENCE = ("train_config.json", "*.md", ".*", f"{ENVELOPE_FILE}*")
_ORIGIN = "pretrained_path"
"""Where a policy's weights were first loaded from."""

type _FileState = tuple[int, int, int, int, int]
_digests: dict[_FileState, str] = {}
_SETTLED_NS = 2_000_000_000
"""Two changes within one tick of a file system's clock look alike, so a younger file may have
changed again unseen."""


def checkpoint_digest(folder: Path) -> str:
    """sha256 over every file in a pretrained_model folder that inference may read, and its name.

    Config, weights, processors with their state, tokenizers, adapters and lefleet.json count, and
    so do folders elsewhere on this machine that these name or link to. A file that has not changed
    since it was last read in this process is not read again.
    """
    total = hashlib.sha256()
    folders = [folder.resolve()]
    for one in folders:  # grows while folders name others
        for file in sorted(one.rglob("*")):
            name = file.relative_to(one)
            if any(_is_ignored(part) for part in name.parts):
                continue
            if file.is_file():
                digest = _config_digest(file) if str(name) == "config.json" else file_digest(file)
                total.update(f"{name}\0{digest}\n".encode())
            elif file.is_dir() and file.is_symlink():
                folders += {file.resolve()} - {*folders}
        folders += [other for other in _folders_named(one) if other not in folders]
        total.update(b"\n")
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """sha256 of a file; kept until its size, times or inode change."""
    with path.open("rb") as file:
        before = _state(file)
        if before in _digests:
            return _digests[before]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if _state(file) == before and time.time_ns() - before[-1] > _SETTLED_NS:
            _digests[before] = digest
    return digest


def _state(file: BinaryIO) -> _FileState:
    """Where a file lies, its size, and when its content and its inode last changed.

    Asked of the open file: on a network file system the answer by path may be out of date.
    """
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_ignored(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in _NOT_FOR_INFERENCE)


def _folders_named(folder: Path) -> list[Path]:
    """Folders of this machine from which a checkpoint reads tokenizers, processors or its base."""
    settings = [_fields(folder / name) for name in ("config.json", "adapter_config.json")]
    for pipeline in ("policy_preprocessor.json", "policy_postprocessor.json"):
        steps = _fields(folder / pipeline).get("steps") or ()
        settings += [step.get("config") or {} for step in steps]
    named = {
        str(value)
        for fields in settings
        for key, value in fields.items()
        if key.endswith(("_name", "_path")) and key != _ORIGIN
    }
    folders = (Path(name) for name in sorted(named))
    return [other.resolve() for other in folders if other.is_absolute() and other.is_dir()]


def _config_digest(file: Path) -> str:
    """Of a policy's configuration, except where its weights were first loaded from."""
    config = _fields(file)
    config.pop(_ORIGIN, None)
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _fields(file: Path) -> dict[str, Any]:
    """The content of a JSON file; none where there is no such file."""
    if not file.is_file():
        return {}
    try:
        fields: dict[str, Any] = json.loads(file.read_bytes())
    except ValueError as error:
        raise BadInput(f"{file} is not JSON: {error}.", "Copy the checkpoint again.") from error
    return fields


def dataset_digest(
    info: dict[str, Any],
    episodes: Sequence[int],
    tasks: dict[int, str],
    data_files: Iterable[Path],
    video_files: Iterable[Path],
) -> str:
    """sha256 over the content of `episodes`: features, rate, task texts, every value in the data.

    Positions in files, indices and timestamps do not count, so the same episodes merged or copied
    elsewhere keep their digest. Videos count by file.
    """
    import pyarrow.parquet as pq

    wanted = set(episodes)
    by_episode: dict[int, str] = {}
    features = {key: info["features"][key] for key in sorted(info["features"])}
    for file in data_files:
        table = pq.read_table(file)
        for number, rows in _rows_by_episode(table):
            if number in wanted:
                by_episode[number] = _rows_digest(rows, tasks)
    total = hashlib.sha256()
    shape = {
        key: [feature["dtype"], list(feature["shape"]), feature.get("names")]
        for key, feature in features.items()
        if key not in _BOOKKEEPING
    }
    total.update(json.dumps([info["fps"], shape], sort_keys=True).encode())
    for number in episodes:
        total.update(by_episode[number].encode())
    for file in sorted(video_files):
        total.update(file_digest(file).encode())
    return total.hexdigest()


def _rows_by_episode(table: Any) -> Iterable[tuple[int, Any]]:
    """(episode index, its rows); an episode's rows follow each other in one file."""
    numbers = table.column("episode_index").to_numpy()
    start = 0
    for position in range(1, len(numbers) + 1):
        if position == len(numbers) or numbers[position] != numbers[start]:
            yield int(numbers[start]), table.slice(start, position - start)
            start = position


def _rows_digest(rows: Any, tasks: dict[int, str]) -> str:
    content = hashlib.sha256()
    for task_index in rows.column("task_index").to_numpy():
        content.update(tasks[int(task_index)].encode() + b"\0")
    for name in sorted(rows.column_names):
        if name not in _BOOKKEEPING:
            content.update(name.encode() + b"\0")
            for piece in _pieces(rows.column(name).combine_chunks()):
                content.update(piece)
    return content.hexdigest()


def _pieces(column: Any) -> Iterator[bytes]:
    """The bytes that make up a column: where lists end, then what is in them.

    The same lists count the same, whether the file stores them with a fixed or a free length.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield repr(column.value_lengths().to_pylist()).encode()
        yield from _pieces(column.flatten())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        yield column.to_numpy(zero_copy_only=False).tobytes()
    else:
        yield repr(column.to_pylist()).encode()
