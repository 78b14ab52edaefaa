"""Append, replace and lock files so that a kill leaves them whole."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from weakref import WeakSet

from lefleet.errors import BadInput

LOCK = ".recording.lock"
"""In a dataset's folder: locked while a process records into it or recovers it."""
NEW = ".*.new"
"""Names of files that were being written when a process was killed."""


def replace_file(path: Path, content: bytes) -> None:
    """The file has either its old content or the new one, also after a power failure."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def append_lines(path: Path, lines: Iterable[bytes]) -> None:
    """All of the lines, on disk when this returns, or none of them.

    Processes may append at the same time. An unfinished line of one that was killed is cut off.
    """
    content = b"".join(line + b"\n" for line in lines)
    with locked(path) as file:
        end = _end_of_lines(file)
        file.truncate(end)
        try:
            while content:  # A full disk may take a part first.
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def cut(path: Path, length: int) -> None:
    """Drop what was appended after the file had this length."""
    with locked(path) as file:
        if file.seek(0, os.SEEK_END) > length:
            file.truncate(length)
            os.fsync(file.fileno())


def finished_lines(path: Path) -> list[bytes]:
    """The lines of a file, without one that is still being written; none where there is no file."""
    if not path.exists():
        return []
    return path.read_bytes().split(b"\n")[:-1]


def sync_files(files: Iterable[Path], synced: set[Path]) -> None:
    """Put new files on disk, and the folders that name them.

    `synced` are folders whose own names are on disk already; those of the files are added.
    """
    folders = set()
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        folders |= {path.parent, *(set(path.parents) - synced)}
    for folder in folders:
        _sync_folder(folder)
    synced |= folders


class FolderLock:
    """One process at a time records into a folder or recovers it.

    The lock ends with its process. A fork that lives longer, such as an encoder of LeRobot's, does
    not keep it.
    """

    def __init__(self, root: Path) -> None:
        self._file = (root / LOCK).open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise BadInput(
                f"{root} is being recorded by another process.",
                "Wait until it ends, or record into another folder.",
            ) from error
        _LOCKS.add(self)

    def release(self) -> None:
        self._file.close()


_LOCKS: WeakSet[FolderLock] = WeakSet()


def _release_in_fork() -> None:
    for lock in _LOCKS:
        lock.release()


os.register_at_fork(after_in_child=_release_in_fork)


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """The file, for its holder alone, unbuffered; created where there is none."""
    with path.open("ab+", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _end_of_lines(file: BinaryIO) -> int:
    """Where the last finished line ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 4096)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
