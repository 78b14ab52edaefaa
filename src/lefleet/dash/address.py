"""Where the dashboard of a work folder can be reached. Imports nothing heavy, so that any command
can tell."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from lefleet.errors import BadInput
from lefleet.process import is_held
from lefleet.records import decode, encode
from lefleet.records.border import Strict

FOLDER = ".dash"
"""In a work folder: what belongs to its dashboard."""
_LOCK = "lock"
_ADDRESS = "address.json"
_WAIT_S = 1.0
"""Whoever looks whether a dashboard is running holds its lock for a moment."""


class DashAddress(Strict, frozen=True, kw_only=True):
    """Written when a dashboard can be reached, removed when it ends."""

    version: Literal[1] = 1
    url: str
    """As this machine reaches it, without a slash at its end."""
    pid: int


def running(workdir: Path) -> str | None:
    """Address of the dashboard of `workdir`; None where there is none, or none that this user can
    see."""
    folder = workdir / FOLDER
    try:
        if not is_held(folder / _LOCK):
            return None
        found: DashAddress = decode((folder / _ADDRESS).read_bytes(), DashAddress, _ADDRESS)
    except (OSError, BadInput):
        return None
    return found.url


def private_folder(workdir: Path) -> Path:
    """The folder of the dashboard, made where it is missing; nobody else may look into it."""
    folder = workdir / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise BadInput(
            f"workdir: {folder} cannot be used: {error.strerror}.", "Name another --workdir."
        ) from error
    return folder


@contextmanager
def only_one(workdir: Path) -> Iterator[None]:
    """Hold the lock of the dashboard of `workdir`. Raises `BadInput` where another process does."""
    folder = private_folder(workdir)
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(lock):
            where = running(workdir)
            raise BadInput(
                f"workdir: {workdir} has a running dashboard{f': {where}' if where else ''}.",
                "Open that one, or stop it first with Ctrl-C.",
            )
        # One that was killed left its address behind.
        (folder / _ADDRESS).unlink(missing_ok=True)
        try:
            yield
        finally:
            (folder / _ADDRESS).unlink(missing_ok=True)
    finally:
        os.close(lock)


def announce(workdir: Path, url: str) -> None:
    """From now on `running` finds it; for the process that holds the lock."""
    folder = workdir / FOLDER
    partial = folder / f"{_ADDRESS}.partial"
    partial.write_bytes(encode(DashAddress(url=url, pid=os.getpid())))
    partial.replace(folder / _ADDRESS)


def _locked(lock: int) -> bool:
    until_s = time.monotonic() + _WAIT_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
