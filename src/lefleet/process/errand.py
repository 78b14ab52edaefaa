"""A process that does what is pending beside a run, one at a time, and outlives its controller."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lefleet.process.launch import launch
from lefleet.process.liveness import is_held, take_lock

started: dict[Path, "subprocess.Popen[bytes]"] = {}
"""The newest process that this one has started, by its lock."""
_older: list["subprocess.Popen[bytes]"] = []
"""Those that had nothing left to do when another was started: their exit codes are collected."""


def see_to_errand(argv: Sequence[str], lock: Path, log: Path) -> None:
    """Start `argv` unless there is a process for it that has yet to look for what is pending.

    One that holds the lock looks once more after it has let go of it. One that has just been
    started has not written its id into the lock yet.
    """
    _older[:] = [child for child in _older if child.poll() is None]
    if is_held(lock):
        return
    child = started.get(lock)
    if child is not None and child.poll() is None:
        if lock_holder(lock) != child.pid:
            return
        _older.append(child)
    with log.open("ab") as output:
        started[lock] = launch(argv, stdout=output, stderr=output, detached=True, may_fork=False)


def lock_holder(lock: Path) -> int:
    """Process id of the last one that had the lock; 0 where there was none."""
    try:
        return int(lock.read_text() or 0)
    except FileNotFoundError:
        return 0


def do_errand(lock: Path, is_pending: Callable[[], object], do: Callable[[], None]) -> None:
    """Do what is pending, unless another process does it.

    Once more after the lock is free: who added something meanwhile saw it held.
    """
    while is_pending():
        with errand_lock(lock) as is_mine:
            if not is_mine:
                return
            do()


@contextmanager
def errand_lock(path: Path) -> Iterator[bool]:
    """Hold the lock that makes this process the only one; False when another has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        is_mine = take_lock(lock)
        if is_mine:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield is_mine
    finally:
        os.close(lock)
