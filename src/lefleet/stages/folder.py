"""A stage's folder: its lock, request, journal of episodes and record."""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, Self

import msgspec

from lefleet.cluster.fence import FENCE, require_current
from lefleet.durable import flush_folder, write_durably
from lefleet.errors import BadInput, LeFleetError, StageFailed
from lefleet.process import is_held
from lefleet.records import (
    CompareRequest,
    Corrections,
    EvaluateRequest,
    ExistingDataset,
    ImproveRequest,
    Record,
    Request,
    TrainRequest,
    decode,
    encode,
)
from lefleet.stages.progress import PROGRESS

REQUEST = "request.json"
RECORD = "record.json"
LOG = "log.txt"
INPUTS = "inputs.json"
ENVIRONMENT = "environment.json"
"""What the LeRobot environment of a stage offers, where it has one."""
_LOCK = ".lock"
_RUN_EVENTS = "events.jsonl"
"""In the folder of a run, whose stages are two levels below."""
START_ANEW = "start anew with --restart: the folder of before is kept under another name."


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
            _refuse_foreign(self.path)
            self._made = [one for one in (self.path, *self.path.parents) if not one.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path)
        except OSError as error:
            raise _unusable(self.path, error) from error
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
        """Make the stage done; Outdated where another attempt has taken over the folder."""
        require_current(self.path)
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
                    f"Restore it, or {start_anew(self.path)}",
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
        for name in (_LOCK, REQUEST, INPUTS, ENVIRONMENT, PROGRESS, LOG, FENCE):
            (self.path / name).unlink(missing_ok=True)

    def fresh(self, name: str) -> Path:
        """A path in the folder where nothing is; leftovers of an interrupted run are removed."""
        path = self.path / name
        if path.exists():
            shutil.rmtree(path)
        return path

    def _claim(self) -> None:
        """Write the request, or see that the folder was made for the same one."""
        self.is_new = not (self.path / REQUEST).exists()
        if not self.is_new:
            require_request(self.path, self._request)
        if read_request(self.path) != self._request:
            # The stage's process reads it: what is asked for now counts.
            write_durably(self.path / REQUEST, encode(self._request))


def _locked(path: Path) -> int:
    """The open lock of the stage folder `path`, which this process now holds."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may have been set aside, and another begun, since the lock was opened.
        is_here = os.path.samestat(os.fstat(lock), (path / _LOCK).stat())
    except (FileNotFoundError, BlockingIOError):
        is_here = False
    except BaseException:
        os.close(lock)
        raise
    if not is_here:
        os.close(lock)
        raise in_use(path)
    return lock


def start_anew(path: Path) -> str:
    """What to do where a stage cannot be resumed in `path`, to end a sentence."""
    run = path.parent.parent
    if (run / _RUN_EVENTS).exists():
        return f"start a new run: this folder belongs to the run {run.name}."
    return START_ANEW


def in_use(path: Path) -> StageFailed:
    return StageFailed(f"Another process is working in {path}.", "Wait for it, or stop it first.")


def _refuse_foreign(path: Path) -> None:
    """A folder with other files in it is not touched."""
    if not path.is_dir() or (path / REQUEST).exists():
        return
    if any(entry.name not in (_LOCK, REQUEST + ".partial") for entry in path.iterdir()):
        raise BadInput(
            f"out: {path} is not empty and not a stage's folder.", "Choose another folder."
        )


def set_aside(path: Path) -> Path | None:
    """Rename a stage's folder, so that its stage can start anew; where it is now, None where there
    was none. Everything in it is kept. One step: a kill leaves it under one of both names."""
    try:
        _refuse_foreign(path)
        if not (path / REQUEST).exists():
            return None
        lock = _locked(path)
        try:
            names = (path.with_name(f"{path.name}-before-{number}") for number in count(1))
            kept = next(name for name in names if not os.path.lexists(name))
            path.rename(kept)
            flush_folder(path.parent)
        finally:
            os.close(lock)
    except OSError as error:
        raise _unusable(path, error) from error
    return kept


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


def committed(path: Path, request: Request) -> Record | None:
    """The record of a finished stage, without working in its folder; None when it is not."""
    record = read_record(path)
    if record is not None:
        require_request(path, request)
    return record


def require_request(path: Path, request: Request) -> None:
    """See that the stage folder `path` was made for `request`."""
    theirs = read_request(path)
    if theirs is None:
        raise BadInput(
            f"out: {path} has no {REQUEST}.", "Choose another folder, or remove this one."
        )
    if not is_same_result(theirs, request):
        raise BadInput(
            f"out: {path} was made for another request ({_difference(theirs, request)}).",
            f"Choose another folder, or {start_anew(path)}",
        )


def read_request(path: Path) -> Request | None:
    """What the stage folder `path` was made for; None where it is none."""
    file = path / REQUEST
    if not file.exists():
        return None
    request: Request = decode(file.read_bytes(), Request, str(file))
    return request


def is_same_result(one: Request, other: Request) -> bool:
    """Whether two requests ask for the same, so that one may resume the other."""
    return _result_of(one) == _result_of(other)


def _result_of(request: Request) -> Request:
    """Without what no result depends on. So rollouts can be resumed with other workers, a gate with
    another number of films, a training with other trackers, and a selection in a run that now has
    more cycles. Not with another device: results of one record are of one device."""
    match request:
        case CompareRequest():
            return msgspec.structs.replace(request, films=0, workers=0)
        case EvaluateRequest() | ImproveRequest() | Corrections():
            return msgspec.structs.replace(request, workers=0)
        case TrainRequest():
            return msgspec.structs.replace(request, wandb=False)
        case ExistingDataset():
            return msgspec.structs.replace(request, at_least=0)
        case _:
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
        self._folder = path.parent
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
        require_current(self._folder)
        self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in added))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines += added
