"""The controller of a run: takes the next step until there is none."""

import fcntl
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lefleet.errors import BadInput, ChildKilled, LeFleetError
from lefleet.ledger import AttemptRow, RunRow, open_ledger
from lefleet.ledger.connect import CONTROLLER_LOCK
from lefleet.ledger.journal import EventJournal
from lefleet.loop.attempts import Attempts
from lefleet.loop.decide import make_decision
from lefleet.loop.limits import attempts_used, backoff_s, reached, usage, would_exceed
from lefleet.loop.preload import Preload
from lefleet.loop.requests import count_tasks, cycle_inputs, make_request, stage_folder
from lefleet.loop.stage_process import (
    Cancellation,
    StageCancelled,
    StageGone,
    StageMonitor,
    carry_out,
)
from lefleet.loop.state import RunState, read_state, stored_config
from lefleet.loop.status import SUMMARY, write_summary
from lefleet.loop.steps import (
    Decide,
    EndRun,
    RunStage,
    next_step,
)
from lefleet.loop.success_plot import PLOT
from lefleet.records import Request
from lefleet.stages.folder import RECORD, is_locked
from lefleet.stages.progress import ProgressWriter

_TRIES = 20
_POLL_S = 0.5
MAX_GONE = 50
"""Attempts at one stage whose own process was killed and that recorded nothing new, before the run
fails."""


class Controller:
    """One run's controller. Single-threaded; all that it knows it reads from the ledger.

    It holds a file lock on the run's folder for as long as it lives. A second controller finds it
    held and leaves. The lock is not inherited by stage processes, which outlive a controller. With
    `may_fork`, stage processes are forks of this one, which imports LeRobot for them.
    """

    def __init__(self, workdir: Path, run: str, *, may_fork: bool = False) -> None:
        self._run = run
        self._folder = workdir / run
        self._ledger = open_ledger(workdir, create=False, migrate=False)
        self._attempts = Attempts(self._ledger, run, self._folder)
        row = self._row()
        self._config = stored_config(row)
        self._created_at = row.created_at
        self._preload = Preload(self._config, may_fork=may_fork)

    def run(self) -> int:
        """Until the run has ended; the exit code says how."""
        with controller_lock(self._folder) as is_mine:
            if not is_mine:
                return 0
            with EventJournal(self._ledger, self._run, self._folder) as events:
                events.write_new()
                if self._row().state == "running":
                    self._work(events)
                else:
                    self._complete()
                return 1 if self._row().state == "failed" else 0

    def _work(self, events: EventJournal) -> None:
        """Step by step. The run's state changes last, so a run that has ended has its summary."""
        while (end := self._advance(events)) is None:
            events.write_new()
        if end.state != "failed":
            self._attempts.settle(end.reason)
        self._summarize(self._row()._replace(state=end.state, reason=end.reason))
        self._ledger.set_run_state(self._run, end.state, end.reason)
        events.write_new()

    def _complete(self) -> None:
        """Write what is missing of the files of a run that has ended."""
        if not all((self._folder / name).exists() for name in (SUMMARY, PLOT)):
            self._summarize(self._row())

    def _summarize(self, row: RunRow) -> None:
        # A full disk must not hide how the run ended; these files can be made at any time.
        try:
            write_summary(self._ledger, row, self._folder)
        except OSError:
            traceback.print_exc()

    def _row(self) -> RunRow:
        row = self._ledger.run(self._run)
        if row is None:
            where = self._folder.parent
            raise BadInput(
                f"run: there is no run called {self._run} in {where}.", "See: lefleet status"
            )
        return row

    def _advance(self, events: EventJournal) -> EndRun | None:
        """Do the next thing; returns the end of the run when it has come."""
        state = read_state(self._ledger, self._row())
        match next_step(state):
            case EndRun() as end:
                return end
            case Decide(cycle):
                self._ledger.record_decision(self._run, make_decision(state, cycle))
                return None
            case RunStage(cycle, stage):
                return self._stage(state, events, cycle, stage)

    def _stage(
        self, state: RunState, events: EventJournal, cycle: int, stage: str
    ) -> EndRun | None:
        request = make_request(cycle_inputs(state, self._folder, cycle), stage)
        folder = stage_folder(self._folder, cycle, stage)
        left = self._attempts.unfinished()
        if not is_locked(folder) and not (folder / RECORD).exists():
            for attempt in left:
                self._attempts.abandon(attempt)
            if left:
                return None
            if limit := self._limit(state, request):
                return EndRun("finished", limit)
            if wait := backoff_s(self._attempts.of(cycle, stage), self._after(), time.time()):
                # Read the ledger again meanwhile: a stop may be requested.
                time.sleep(min(wait, _POLL_S))
                return None
        running_s = sum(max(0.0, time.time() - attempt.started_at) for attempt in left)
        so_far = replace(state, device_seconds=state.device_seconds + running_s)
        monitor = StageMonitor(self._ledger, self._run, folder, so_far, self._wall_s)

        def on_launch() -> None:
            self._preload.finish(ProgressWriter(folder))
            self._ledger.start_attempt(self._run, cycle, stage, request)
            events.write_new()
            monitor.begin()

        def must_end() -> Cancellation | None:
            events.write_new()
            self._preload.import_next()
            return monitor.must_end()

        try:
            record = carry_out(request, folder, must_end=must_end, on_launch=on_launch)
        except (StageCancelled, StageGone, LeFleetError) as error:
            attempt = self._attempts.current(cycle, stage, request)
            return self._stage_ended(attempt, error)
        self._attempts.commit(self._attempts.current(cycle, stage, request), record)
        return None

    def _limit(self, state: RunState, request: Request) -> str:
        """The budget that does not allow to start a stage, in words."""
        budgets, used = state.config.budgets, usage(state, self._wall_s())
        planned = would_exceed(budgets, used, request, count_tasks(self._config))
        return reached(budgets, used) or planned

    def _stage_ended(
        self, attempt: AttemptRow, error: StageCancelled | StageGone | LeFleetError
    ) -> EndRun | None:
        """Close an attempt that brought no record; ends the run where no other may follow."""
        if isinstance(error, StageCancelled) and error.cancellation.kind != "hang":
            self._attempts.close(attempt, "cancelled", str(error))
            is_budget = error.cancellation.kind == "budget"
            return EndRun("finished", str(error)) if is_budget else None
        state = "killed" if isinstance(error, ChildKilled) else "failed"
        state = "gone" if isinstance(error, StageGone) else state
        self._attempts.close(attempt, state, str(error))
        made = self._attempts.of(attempt.cycle, attempt.stage)
        if state == "gone":
            is_last = attempts_used(made, self._after(), "gone") >= MAX_GONE
        else:
            used = attempts_used(made, self._after(), "failed", "killed")
            is_last = used >= self._config.max_attempts or isinstance(error, BadInput)
        if not is_last:
            return None
        if attempt.stage == "improve":
            self._attempts.close(attempt, "skipped", str(error), made[-1].ended_at)
            return None
        return EndRun("failed", f"{attempt.stage} of cycle {attempt.cycle}: {error}")

    def _after(self) -> int:
        return self._row().resumed_after

    def _wall_s(self) -> float:
        return time.time() - self._created_at


@contextmanager
def controller_lock(folder: Path) -> Iterator[bool]:
    """Hold the lock that makes a process the only controller of the run in `folder`; False when
    another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / CONTROLLER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield _take(lock)
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    """Take the lock; False when another controller has it.

    A process that only looks whether there is a controller holds it for an instant, so one refusal
    is not enough.
    """
    for _ in range(_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False
