"""Which processes are alive: those that carry a mark, the one that holds a lock, and one that was
written down."""

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import suppress
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


def with_descendants(pids: Iterable[int]) -> set[int]:
    """These living processes and all that they have started, directly or not: a program that writes
    its own title over its environment shows no mark."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = set(pids) & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
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


def this_process() -> str:
    """Identifies this process among those of all machines, for as long as machines run."""
    return identity_of(os.getpid())


def identity_of(pid: int) -> str:
    """As `this_process`, of another process on this machine."""
    return f"{_machine()}:{pid}:{_start(pid)}"


def has_ended(process: str) -> bool:
    """Whether a process that `this_process` identified is known to have ended: on this machine
    since its last boot. Of other machines, nothing is known."""
    machine, pid, start = process.rsplit(":", 2)
    return machine == _machine() and _start(int(pid)) != start


def _machine() -> str:
    """This boot of this kernel, and the namespace that process ids are counted in."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"


def _start(pid: int) -> str:
    """When a process started, in clock ticks; empty where it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]
