"""Which runs have a controller: one seam, behind which there are file locks or leases.

On one machine a file lock is exact: it is free when its process is dead, however that died, and
held while it sleeps. Between machines there is no such lock, so a ledger on a server has leases.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from lefleet.process import is_held
from lefleet.process.liveness import take_lock

LOCK = ".controller.lock"
"""In the folder of a run: locked while a controller works on it."""


class Controllers(Protocol):
    """Who controls the runs of one ledger: at most one process for each run."""

    def hold(self, run: str) -> AbstractContextManager[bool]:
        """Be the only controller of the run; False where another process is. From here on, writes
        through this ledger are a controller's."""

    def renew(self) -> None:
        """To be called by the holder every few seconds while it works. Raises LeaseLost where
        another process has taken over."""

    def host(self, run: str) -> str | None:
        """Name of the machine that the run's controller is running on; None where there is no
        controller."""


class FileLocks:
    """A lock on a file in the folder of each run."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir

    @contextmanager
    def hold(self, run: str) -> Iterator[bool]:
        folder = self._workdir / run
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            yield take_lock(lock)
        finally:
            os.close(lock)

    def renew(self) -> None:
        """A lock needs no renewal."""

    def host(self, run: str) -> str | None:
        return socket.gethostname() if is_held(self._workdir / run / LOCK) else None
