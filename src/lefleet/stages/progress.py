"""Progress of a stage: what its body reports, and the file in which other processes see it."""

import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Self

import msgspec

from lefleet.records.border import Strict

PROGRESS = "progress.json"
_WRITE_EVERY_S = 0.2


class Update(NamedTuple):
    """One report. `done` of `total` in `unit`s; `detail` is a short remark such as a loss.

    Where `total` is 0, there is nothing to count, and `detail` names what is going on.
    """

    done: int
    total: int
    unit: str
    detail: str = ""
    is_limit: bool = False
    """Whether `total` is only the most that may be needed, as in a gate."""

    @classmethod
    def phase(cls, name: str) -> Self:
        """Work that cannot be counted: "loading LeRobot"."""
        return cls(0, 0, "", name)


LOADING = Update.phase("loading LeRobot")
DIGESTING = Update.phase("computing digests")
STARTING_SIMULATION = Update.phase("starting the simulation")
WAITING = Update.phase("waiting for resources on the cluster")

Progress = Callable[[Update], None]


def silent(update: Update) -> None:
    """Progress that nothing shows."""


def room_told(progress: Progress) -> Callable[[bool], None]:
    """For a pool of workers: tells whether they wait for room."""
    return lambda is_waiting: progress(WAITING if is_waiting else STARTING_SIMULATION)


class StageProgress(Strict, frozen=True, kw_only=True):
    """The newest report of a stage, and since when it does that; times in seconds since 1970."""

    done: int
    total: int
    unit: str
    detail: str
    is_limit: bool
    first: int
    """`done` when the stage began to count in this unit: a resumed one does not begin at 0."""
    since: float
    """When it began to count in this unit, or this phase began."""
    at: float
    """When it reported this."""

    @property
    def what(self) -> str:
        """The unit that is counted, or the phase."""
        return self.unit if self.total else self.detail

    def eta_s(self, now: float) -> float | None:
        """About how long it will take to count to `total`; None where that cannot be said yet."""
        made = self.done - self.first
        if made <= 0:
            return None
        expected = (self.at - self.since) / made * (self.total - self.done)
        return max(0.0, expected - (now - self.at))


def timed(update: Update, before: StageProgress | None, now: float) -> StageProgress:
    """The report that follows `before`."""
    new = StageProgress(**update._asdict(), first=update.done, since=now, at=now)
    if before is None or new.what != before.what:
        return new
    return msgspec.structs.replace(new, first=before.first, since=before.since)


class ProgressWriter:
    """Writes `progress.json`: a few times a second, the last report of a unit, and every phase."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        # On a cluster two processes may write for a moment: one that waits, and one that begins.
        self._partial = folder / f".{PROGRESS}.{token_hex(4)}"
        self._written: StageProgress | None = None

    def __call__(self, update: Update) -> None:
        new, written = timed(update, self._written, time.time()), self._written
        if written is not None and new.what == written.what and new.done < new.total:
            is_early = 0 <= new.at - written.at < _WRITE_EVERY_S
            if is_early:
                return
        self._written = new
        self._partial.write_bytes(msgspec.json.encode(new))
        self._partial.replace(self._path)


def read_progress(folder: Path) -> StageProgress | None:
    """The newest report of the stage in `folder`."""
    try:
        return msgspec.json.decode((folder / PROGRESS).read_bytes(), type=StageProgress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
