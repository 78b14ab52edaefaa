"""Content digests: the same digest means the same data, or the same behaviour."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

INFERENCE_FILES = ("*.safetensors", "*.json", "*.model")
"""What inference reads of a checkpoint: config, weights, processors with their statistics,
adapters, tokenizers."""

_NOT_FOR_INFERENCE = ("train_config.json", "lefleet.json")
_BOOKKEEPING = ("index", "episode_index", "task_index", "timestamp", "frame_index")


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoint_digest(folder: Path) -> str:
    """sha256 over every file in a pretrained_model folder that inference reads, and its name; with
    an adapter, over its base too."""
    files = {file for pattern in INFERENCE_FILES for file in folder.rglob(pattern)}
    total = hashlib.sha256()
    for file in sorted(files):
        name = str(file.relative_to(folder))
        if name not in _NOT_FOR_INFERENCE:
            digest = _config_digest(file) if name == "config.json" else file_digest(file)
            total.update(f"{name}\0{digest}\n".encode())
    if base := _adapter_base(folder):
        total.update(f"base\0{checkpoint_digest(base)}\n".encode())
    return total.hexdigest()


def _adapter_base(folder: Path) -> Path | None:
    """The checkpoint that an adapter in `folder` adapts, where it is on this machine."""
    file = folder / "adapter_config.json"
    if not file.is_file():
        return None
    base = Path(json.loads(file.read_bytes()).get("base_model_name_or_path") or "")
    return base if base.is_absolute() and base.is_dir() else None


def _config_digest(file: Path) -> str:
    """Of a policy's configuration, except where its weights were first loaded from."""
    config = json.loads(file.read_bytes())
    config.pop("pretrained_path", None)
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


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
