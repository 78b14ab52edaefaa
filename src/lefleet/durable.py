"""Files that are complete and stay there, also when the machine stops at any moment."""

import os
from pathlib import Path


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """All of `data` under `path`, or nothing, also when the machine stops in between. `mode` says
    who may read it, less the umask."""
    partial = path.with_name(path.name + ".partial")
    partial.touch(mode)
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """The names in it survive a stop of the machine from now on."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
