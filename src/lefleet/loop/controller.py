"""The controller of a run: does the next thing until there is none."""

import fcntl
import os
import time
import traceback
from dataclasses import replace
from pathlib import Path

from lefleet.errors import BadInput, LeFleetError
from lefleet.ledger import RunRow, open_ledger
from lefleet.ledger.connect import CONTROLLER_LOCK
from lefleet.ledger.journal import EventJournal
from lefleet.loop.attempt import Cancelled, Ending, Gone, carry_out
from lefleet.loop.books import Books
from lefleet.loop.budget import reached, spent, would_exceed
from lefleet.loop.evidence import make_decision
from lefleet.loop.next_step import Decide, EndRun, RunStage, next_step
from lefleet.loop.requests import count_tasks, make_request, stage_folder
from lefleet.loop.state import RunState, read_state, stored_config
from lefleet.loop.summary import PLOT, SUMMARY, write_summary
from lefleet.loop.watch import Watch
from lefleet.records import Request
from lefleet.stages.folder import RECORD, is_locked

_TRIES = 20
MAX_GONE = 50
"""Attempts at one stage whose process was killed from outside before the run gives up."""


class Controller:
    """One run's controller. Single-threaded; all that it knows it reads from the ledger.

    It holds a file lock on the run's folder for as long as it lives. A second controller finds it
    held and leaves. The lock is not inherited by stage processes, which outlive a controller.
    """

    def __init__(self, workdir: Path, run: str) -> None:
        self._run = run
        self._folder = workdir / run
        self._ledger = open_ledger(workdir, create=False, migrate=False)
        self._books = Books(self._ledger, run, self._folder)
        row = self._row()
        self._config = stored_config(row)
        self._created_at = row.created_at

    def run(self) -> int:
        """Until the run has ended; the exit code says how."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / CONTROLLER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _take(lock):
            os.close(lock)
            return 0
        try:
            with EventJournal(self._ledger, self._run, self._folder) as events:
                events.write_new()
                if self._row().state == "running":
                    self._work(events)
                else:
                    self._complete()
                return 1 if self._row().state == "failed" else 0
        finally:
            os.close(lock)

    def _work(self, events: EventJournal) -> None:
        """Step by step. The run's state is the last thing to change: whoever finds that it has
        ended finds its summary too."""
        while (end := self._advance(events)) is None:
            events.write_new()
        if end.state != "failed":
            self._books.settle(end.reason)
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
        request = make_request(state, self._folder, cycle, stage)
        folder = stage_folder(self._folder, cycle, stage)
        left = self._books.opened()
        if not is_locked(folder) and not (folder / RECORD).exists():
            for attempt in left:
                self._books.abandon(attempt)
            if left:
                return None
            if limit := self._limit(state, request):
                return EndRun("finished", limit)
        running_s = sum(max(0.0, time.time() - attempt.started_at) for attempt in left)
        so_far = replace(state, device_seconds=state.device_seconds + running_s)
        watch = Watch(self._ledger, self._run, folder, so_far, self._wall_s)

        def on_launch() -> None:
            self._ledger.start_attempt(self._run, cycle, stage, request)
            events.write_new()

        def must_end() -> Ending | None:
            events.write_new()
            return watch.must_end()

        try:
            record = carry_out(request, folder, must_end=must_end, on_launch=on_launch)
        except Cancelled as error:
            return self._cancelled(cycle, stage, request, error.ending)
        except Gone as error:
            self._end(cycle, stage, request, "gone", str(error))
            return self._give_up(cycle, stage, "gone", MAX_GONE)
        except LeFleetError as error:
            self._end(cycle, stage, request, "failed", str(error))
            tries = 1 if error.exit_code == BadInput.exit_code else self._config.max_attempts
            return self._give_up(cycle, stage, "failed", tries)
        self._books.commit(self._books.current(cycle, stage, request), record)
        return None

    def _limit(self, state: RunState, request: Request) -> str:
        """The budget that does not allow to start a stage, in words."""
        budgets, used = self._config.budgets, spent(state, self._wall_s())
        planned = would_exceed(budgets, used, request, count_tasks(self._config))
        return reached(budgets, used) or planned

    def _end(self, cycle: int, stage: str, request: Request, state: str, error: str) -> None:
        self._ledger.end_attempt(self._books.current(cycle, stage, request), state, error)

    def _cancelled(self, cycle: int, stage: str, request: Request, ending: Ending) -> EndRun | None:
        if ending.kind == "hang":
            self._end(cycle, stage, request, "failed", ending.reason)
            return self._give_up(cycle, stage, "failed", self._config.max_attempts)
        self._end(cycle, stage, request, "cancelled", ending.reason)
        return EndRun("finished", ending.reason) if ending.kind == "budget" else None

    def _give_up(self, cycle: int, stage: str, how: str, tries: int) -> EndRun | None:
        """The end of the run after too many bad attempts; improving is given up alone."""
        bad = self._books.bad(cycle, stage, how)
        if len(bad) < tries:
            return None
        last = bad[-1]
        if stage == "improve":
            self._ledger.end_attempt(last, "skipped", last.error, ended_at=last.ended_at)
            return None
        return EndRun("failed", f"{stage} of cycle {cycle}: {last.error}")

    def _wall_s(self) -> float:
        return time.time() - self._created_at


def _take(lock: int) -> bool:
    """Take the lock; False when another controller has it.

    Somebody who only looks whether there is a controller holds it for an instant, so one refusal
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
