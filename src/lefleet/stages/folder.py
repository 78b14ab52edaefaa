"""A stage's folder: its lock, request, journal of episodes and record."""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import msgspec

from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.process import is_held
from lefleet.records import CompareRequest, Record, Request, decode, encode
from lefleet.stages.progress import PROGRESS

REQUEST = "request.json"
RECORD = "record.json"
LOG = "log.txt"
INPUTS = "inputs.json"
_LOCK = ".lock"


class StageFolder:
    """Exclusive use of one stage folder.

    The lock is a flock on `.lock`, not inherited by children: it is released when this process
    exits, for whatever reason. `commit` writes the record under its final name in one step, so a
    record that exists is complete.
    """

    def __init__(self, path: Path, request: Request) -> None:
        self.path = path
        self.is_new = False
        """Whether this is the first time that the folder is used."""
        self._request = request

    def __enter__(self) -> Self:
        try:
            self._refuse_foreign()
            self._made = [one for one in (self.path, *self.path.parents) if not one.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unusable(self.path, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise StageFailed(
                f"Another process is working in {self.path}.", "Wait for it, or stop it first."
            ) from error
        try:
            self._claim()
        except OSError as error:
            os.close(self._lock)
            raise _unusable(self.path, error) from error
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    @property
    def log(self) -> Path:
        """Output of the stage and of its child processes."""
        return self.path / LOG

    def record(self) -> Record | None:
        """What an earlier run committed."""
        return read_record(self.path)

    def commit(self, record: Record) -> None:
        """Make the stage done."""
        write_durably(self.path / RECORD, encode(record))

    def pin(self, **digests: str) -> None:
        """Remember what the stage works with, or see that it is still the same.

        A request names folders. What lies in them may change between two attempts, or while the
        workers load a checkpoint, and one record must not be about two checkpoints or two datasets.
        So checkpoints are pinned at the start, and again before every episode that they acted in
        is written to the journal.
        """
        path = self.path / INPUTS
        if not path.exists():
            write_durably(path, encode(digests))
            return
        before: dict[str, str] = decode(path.read_bytes(), dict[str, str], str(path))
        for name, digest in digests.items():
            if before.get(name) != digest:
                raise StageFailed(
                    f"{name}: its content has changed since this stage began "
                    f"({str(before.get(name))[:12]} then, {digest[:12]} now).",
                    f"Restore it, or start again in another folder than {self.path}.",
                )

    def discard(self) -> None:
        """Undo the first use of the folder: a refused request leaves nothing behind.

        Work that was done before the refusal stays.
        """
        if any(file.stat().st_size for file in self.path.glob("*.jsonl")):
            return
        if self._made:
            shutil.rmtree(self.path)
            for parent in self._made[1:]:
                # Another process may have put something there.
                with contextlib.suppress(OSError):
                    parent.rmdir()
            return
        for name in (_LOCK, REQUEST, INPUTS, PROGRESS, LOG):
            (self.path / name).unlink(missing_ok=True)

    def fresh(self, name: str) -> Path:
        """A path in the folder where nothing is; leftovers of an interrupted run are removed."""
        path = self.path / name
        if path.exists():
            shutil.rmtree(path)
        return path

    def _refuse_foreign(self) -> None:
        """A folder with other files in it is not touched."""
        if not self.path.is_dir() or (self.path / REQUEST).exists():
            return
        if any(entry.name not in (_LOCK, REQUEST + ".partial") for entry in self.path.iterdir()):
            raise BadInput(
                f"out: {self.path} is not empty and not a stage's folder.", "Choose another folder."
            )

    def _claim(self) -> None:
        """Write the request, or see that the folder was made for the same one."""
        path = self.path / REQUEST
        if not path.exists():
            write_durably(path, encode(self._request))
            self.is_new = True
            return
        require_request(self.path, self._request)


def _unusable(path: Path, error: OSError) -> LeFleetError:
    """A full or broken disk may be mended, so trying again is right; otherwise the path is bad."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return StageFailed(
            f"{path} cannot be written: {error.strerror}.", "Check the disk, then resume."
        )
    return BadInput(f"out: {path} cannot be used: {error.strerror}.", "Choose another folder.")


def is_locked(path: Path) -> bool:
    """Whether a process is working in the stage folder `path`."""
    return is_held(path / _LOCK)


def read_record(path: Path) -> Record | None:
    """The record that a stage committed in `path`, None when it has not."""
    file = path / RECORD
    if not file.exists():
        return None
    record: Record = decode(file.read_bytes(), Record, str(file))
    return record


def write_durably(path: Path, data: bytes) -> None:
    """All of `data` under `path`, or nothing, also when the machine stops in between."""
    partial = path.with_name(path.name + ".partial")
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


def committed(path: Path, request: Request) -> Record | None:
    """The record of a finished stage, without working in its folder; None when it is not."""
    record = read_record(path)
    if record is not None:
        require_request(path, request)
    return record


def require_request(path: Path, request: Request) -> None:
    """See that the stage folder `path` was made for `request`."""
    file = path / REQUEST
    if not file.exists():
        raise BadInput(
            f"out: {path} has no {REQUEST}.", "Choose another folder, or remove this one."
        )
    theirs: Request = decode(file.read_bytes(), Request, str(file))
    if _result_of(theirs) != _result_of(request):
        raise BadInput(
            f"out: {path} was made for another request ({_difference(theirs, request)}).",
            "Choose another folder, or remove this one.",
        )


def _result_of(request: Request) -> Request:
    """Without what no result depends on. So a gate that was begun before there were films, or with
    another number of them, can be resumed."""
    if isinstance(request, CompareRequest):
        return msgspec.structs.replace(request, films=0)
    return request


def _difference(theirs: Request, mine: Request) -> str:
    if type(theirs) is not type(mine):
        return f"a {type(theirs).__name__}"
    for name in mine.__struct_fields__:
        there, here = getattr(theirs, name), getattr(mine, name)
        if there != here:
            return f"{name} is {there!r} there, {here!r} here"
    return "equal"


class Journal:
    """Lines of one struct type; what was appended is on disk when `append` returns.

    A last line that a crash cut short is dropped at the next opening; any other line that cannot
    be read is an error, and nothing is changed. `verify` is called before anything is written.
    """

    def __init__(self, path: Path, kind: Any, verify: Callable[[], None] = lambda: None) -> None:
        self.lines: list[Any] = []
        self._verify = verify
        intact = 0
        if path.exists():
            *complete, _ = path.read_bytes().split(b"\n")
            for number, line in enumerate(complete, 1):
                self.lines.append(decode(line, kind, f"{path}, line {number}"))
                intact += len(line) + 1
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(intact)
        self._file.seek(intact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, line: Any) -> None:
        self.extend((line,))

    def extend(self, lines: Iterable[Any]) -> None:
        """Append several in one write."""
        added = list(lines)
        self._verify()
        self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in added))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines += added
