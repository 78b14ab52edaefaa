"""Which processes are alive: those that carry a mark, and the one that holds a lock."""

import fcntl
import os
import time
from pathlib import Path

_TRIES = 20


def processes_marked(name: str) -> dict[int, str]:
    """All living processes of this user whose environment has `name`: its value by process id.

    Every descendant of a process inherits the mark. A process keeps it when its parent dies, when
    it changes its session, or when another program replaces it; another process that got a reused
    id does not have it.
    """
    mark = f"{name}=".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        for variable in environment.split(b"\0"):
            if variable.startswith(mark):
                found[int(entry.name)] = os.fsdecode(variable[len(mark) :])
    return found


def take_lock(descriptor: int) -> bool:
    """Take the lock on an open file; False when another process has it.

    A process that only looks whether it is held holds it for an instant, so one refusal is not
    enough.
    """
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def is_held(file: Path) -> bool:
    """Whether a living process holds the lock on `file`; no file, no lock."""
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
