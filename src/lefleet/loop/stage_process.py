"""The body of one stage: launch it or attach to it, watch it, and end it.

A record in the stage's folder is taken. A body that the run's executor finds is attached to, no
matter what started it. Otherwise what is left of the last one is ended, and seen to be gone, before
the next one starts; so two bodies of a stage never work at the same time. A record or a body of
another request is refused.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from lefleet.executors import Executor, StageBody
from lefleet.ledger import Ledger
from lefleet.loop.limits import reached, usage
from lefleet.loop.state import RunState
from lefleet.process import oom_kills
from lefleet.records import Record, Request
from lefleet.stages.folder import LOG, StageFolder, committed, require_request
from lefleet.stages.progress import PROGRESS
from lefleet.stages.run import FAILURE, POLL_S, read_failure

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
    executor: Executor,
    *,
    must_end: Callable[[], Cancellation | None],
    on_launch: Callable[[], int],
    on_wait: Callable[[str], None] = lambda _: None,
    on_silence: Callable[[str], None] = lambda _: None,
) -> Record:
    """The record of a stage.

    `must_end` is asked a few times a second whether, and why, the stage must end.
    `on_launch` is called before a body is started, and not when one is attached to; it returns
    the number of the attempt. `on_wait` is called as often as `must_end` while a body that was
    asked for waits for what it needs, with what that is, and `on_silence` while nobody answers who
    knows of the body. Raises ClusterUnreachable where it is not known whether a body was begun.
    """
    if (record := committed(folder, request)) is not None:
        return record
    before = oom_kills()
    body = _begun(request, folder, executor, on_launch)
    while (state := body.look()).phase != "ended":
        if state.phase == "waiting":
            on_wait(state.words)
        elif state.phase == "silent":
            on_silence(state.words)
        if (cancellation := must_end()) is not None:
            executor.cancel({folder})
            if (record := committed(folder, request)) is not None:
                return record
            raise StageCancelled(cancellation)
        time.sleep(POLL_S)
    if (record := committed(folder, request)) is not None:
        return record
    if (folder / FAILURE).exists() or state.code > 0:
        raise read_failure(folder, state.code, before)
    raise StageGone(state.words)


def _begun(
    request: Request, folder: Path, executor: Executor, on_launch: Callable[[], int]
) -> StageBody:
    """The body that works on the request, or a new one."""
    if (body := executor.find(folder)) is not None:
        require_request(folder, request)
        return body
    executor.clear(folder)
    with StageFolder(folder, request):
        pass
    return executor.start(folder, folder.name, on_launch())


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
        worked_s: float = 0.0,
        uses_device: bool = True,
    ) -> None:
        """`worked_s` is how long the body works already that is attached to."""
        self._ledger = ledger
        self._run = run
        self._folder = folder
        self._state = state
        self._wall_s = wall_s
        self._worked_s = worked_s
        self._uses_device = uses_device
        self._signs: list[tuple[int, int]] = []
        self._quiet_s = 0.0
        self.begin()

    def begin(self) -> None:
        """A body is looked at from now on."""
        self._started = self._asked = time.monotonic()

    def waits(self) -> None:
        """The body has yet to start: time in a queue is not time on a device."""
        self._started, self._worked_s = time.monotonic(), 0.0

    def must_end(self) -> Cancellation | None:
        now = time.monotonic()
        if now - self._asked < _ASK_EVERY_S:
            return None
        passed, self._asked = now - self._asked, now
        row = self._ledger.run(self._run)
        if row is not None and row.stop_requested:
            return Cancellation("stop", "on request")
        running_s = self._worked_s + now - self._started if self._uses_device else 0.0
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
