"""The process of one stage: launch it or attach to it, watch it, and end it.

What is found in the stage's folder decides. A record is taken. A held lock means that the stage is
running, no matter what started it. Otherwise what is left of the last process is killed, and seen
to be dead, before the next one starts; so two bodies of a stage never run at the same time. A
record or a process of another request is refused.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from lefleet.errors import StageFailed
from lefleet.ledger import Ledger
from lefleet.loop.limits import reached, usage
from lefleet.loop.state import RunState
from lefleet.process import exit_words, oom_kills, processes_marked
from lefleet.records import Record, Request
from lefleet.stages.folder import LOG, StageFolder, committed, is_locked, require_request
from lefleet.stages.progress import PROGRESS
from lefleet.stages.run import FAILURE, POLL_S, STAGE_MARK, read_failure, start

GRACE_S = 10.0
"""How long a process may take to exit after SIGTERM."""
_ASK_EVERY_S = 0.5
_ASLEEP_S = 5.0
"""A longer pause between two questions means that this process, or the machine, was suspended."""
JOURNALS = ("attempts.jsonl", "episodes.jsonl")
_SIGNS_OF_LIFE = (PROGRESS, LOG, *JOURNALS)


class Cancellation(NamedTuple):
    """Why a running stage must end."""

    kind: Literal["stop", "budget", "hang"]
    reason: str


class StageCancelled(Exception):
    """The stage was ended before it had a record."""

    def __init__(self, cancellation: Cancellation) -> None:
        super().__init__(cancellation.reason)
        self.cancellation = cancellation


class StageGone(Exception):
    """The stage's process left neither a record nor a failure: it, or the machine, was killed."""


def carry_out(
    request: Request,
    folder: Path,
    *,
    must_end: Callable[[], Cancellation | None],
    on_launch: Callable[[], None],
) -> Record:
    """The record of a stage.

    `must_end` is asked a few times a second whether, and why, the stage must end.
    `on_launch` is called before a process is started, and not when one is attached to.
    """
    if (record := committed(folder, request)) is not None:
        return record
    process: subprocess.Popen[bytes] | None = None
    before = oom_kills()
    if is_locked(folder):
        require_request(folder, request)
    else:
        end_processes({folder}, signal.SIGKILL)
        with StageFolder(folder, request):
            pass
        on_launch()
        process = start(folder, detached=True)
    while is_locked(folder) if process is None else process.poll() is None:
        if (cancellation := must_end()) is not None:
            cancel({folder})
            if (record := committed(folder, request)) is not None:
                return record
            raise StageCancelled(cancellation)
        time.sleep(POLL_S)
    if (record := committed(folder, request)) is not None:
        return record
    code = process.returncode if process is not None else 0
    if (folder / FAILURE).exists() or code > 0:
        raise read_failure(folder, code, before)
    raise StageGone(exit_words(code, before) if code else "exited without a record")


def cancel(folders: set[Path]) -> None:
    """Ask the processes of these stages to end, then make them."""
    try:
        end_processes(folders, signal.SIGTERM)
    except StageFailed:
        end_processes(folders, signal.SIGKILL)


def end_processes(folders: set[Path], how: signal.Signals) -> None:
    """Signal every process that belongs to the stages in `folders`, and see them gone."""
    deadline = time.monotonic() + GRACE_S
    names = {str(folder) for folder in folders}
    while marked := {p: name for p, name in processes_marked(STAGE_MARK).items() if name in names}:
        for pid in marked:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            pid, name = next(iter(marked.items()))
            raise StageFailed(
                f"Process {pid} of {name} does not end.", "End it by hand, then resume the run."
            )
        time.sleep(POLL_S / 2)


class StageMonitor:
    """Says whether a running stage must end: by lefleet stop, by a budget, or because it hangs.

    A stage is alive while its files change. Time is counted on this process's monotonic clock and
    only while it looks: a suspended controller or a sleeping laptop is not a hanging stage.
    """

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        folder: Path,
        state: RunState,
        wall_s: Callable[[], float],
        *,
        uses_device: bool = True,
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._folder = folder
        self._state = state
        self._wall_s = wall_s
        self._uses_device = uses_device
        self._signs: list[tuple[int, int]] = []
        self._quiet_s = 0.0
        self.begin()

    def begin(self) -> None:
        """The stage starts now."""
        self._started = self._asked = time.monotonic()

    def must_end(self) -> Cancellation | None:
        now = time.monotonic()
        if now - self._asked < _ASK_EVERY_S:
            return None
        passed, self._asked = now - self._asked, now
        row = self._ledger.run(self._run)
        if row is not None and row.stop_requested:
            return Cancellation("stop", "on request")
        running_s = now - self._started if self._uses_device else 0.0
        used = usage(self._state, self._wall_s(), running_s)
        if limit := reached(self._state.config.budgets, used):
            return Cancellation("budget", limit)
        return self._hanging(passed)

    def _hanging(self, passed: float) -> Cancellation | None:
        signs = [_sign(self._folder / name) for name in _SIGNS_OF_LIFE]
        if signs != self._signs:
            self._signs, self._quiet_s = signs, 0.0
        elif passed < _ASLEEP_S:
            self._quiet_s += passed
        limit = self._state.config.hang_after_s
        if self._quiet_s <= limit:
            return None
        return Cancellation("hang", f"no activity for {limit:g} s")


def last_sign_of_life(folder: Path) -> float:
    """When a stage last changed one of its files; 0 where it has none."""
    return max(_sign(folder / name)[0] for name in _SIGNS_OF_LIFE) / 1e9


def _sign(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
