"""The controller of a run: does the next thing until there is none."""

import fcntl
import os
import time
from pathlib import Path

import msgspec

from lefleet.errors import BadInput, LeFleetError
from lefleet.ledger import AttemptRow, open_ledger
from lefleet.ledger.journal import EventJournal
from lefleet.loop.attempt import Cancelled, Ending, Gone, carry_out
from lefleet.loop.budget import reached, spent, would_exceed
from lefleet.loop.config import count_tasks
from lefleet.loop.evidence import make_decision
from lefleet.loop.next_step import Decide, EndRun, RunStage, next_step
from lefleet.loop.requests import make_request, stage_folder
from lefleet.loop.state import RunState, read_state
from lefleet.loop.summary import write_summary
from lefleet.loop.watch import Watch
from lefleet.records import (
    ComparisonRecord,
    EpisodeRecord,
    EvaluationRecord,
    Record,
    Request,
    RunConfig,
)
from lefleet.stages.journal import Journal

LOCK = ".controller.lock"
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
        self._ledger = open_ledger(workdir)
        row = self._ledger.run(run)
        if row is None:
            raise BadInput(
                f"run: there is no run called {run} in {workdir}.", "See: lefleet status"
            )
        self._config = msgspec.convert(row.config, RunConfig)
        self._created_at = row.created_at

    def run(self) -> int:
        """Until the run has ended; the exit code says how."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _take(lock):
            os.close(lock)
            return 0
        try:
            with EventJournal(self._ledger, self._run, self._folder) as events:
                while True:
                    events.write_new()
                    end = self._advance()
                    if end is not None:
                        self._ledger.set_run_state(self._run, end.state, end.reason)
                        write_summary(self._ledger, self._run, self._folder)
                        events.write_new()
                        return 1 if end.state == "failed" else 0
        finally:
            os.close(lock)

    def _advance(self) -> EndRun | None:
        """Do the next thing; returns the end of the run when it has come."""
        state = read_state(self._ledger, self._run, self._config)
        match next_step(state):
            case EndRun() as end:
                return end
            case Decide(cycle):
                self._ledger.record_decision(self._run, make_decision(state, cycle))
                return None
            case RunStage(cycle, stage):
                return self._stage(state, cycle, stage)

    def _stage(self, state: RunState, cycle: int, stage: str) -> EndRun | None:
        request = make_request(state, self._folder, cycle, stage)
        used = spent(state, self._wall_s())
        budgets, tasks = self._config.budgets, count_tasks(self._config)
        if limit := reached(budgets, used) or would_exceed(budgets, used, request, tasks):
            return EndRun("finished", limit)
        folder = stage_folder(self._folder, cycle, stage)
        watch = Watch(self._ledger, self._run, folder, state, self._wall_s)
        try:
            record = carry_out(
                request,
                folder,
                must_end=watch.must_end,
                on_launch=lambda: self._start(cycle, stage, request),
            )
        except Cancelled as error:
            return self._cancelled(cycle, stage, request, error.ending)
        except Gone as error:
            self._end(cycle, stage, request, "gone", str(error))
            return self._give_up(cycle, stage, "gone", MAX_GONE)
        except LeFleetError as error:
            self._end(cycle, stage, request, "failed", str(error))
            tries = 1 if error.exit_code == BadInput.exit_code else self._config.max_attempts
            return self._give_up(cycle, stage, "failed", tries)
        self._commit(cycle, stage, request, record)
        return None

    def _start(self, cycle: int, stage: str, request: Request) -> None:
        self._ledger.start_attempt(self._run, cycle, stage, request)

    def _commit(self, cycle: int, stage: str, request: Request, record: Record) -> None:
        episodes: list[EpisodeRecord] = []
        if isinstance(record, EvaluationRecord | ComparisonRecord):
            file = stage_folder(self._folder, cycle, stage) / record.episodes_file
            with Journal(file, EpisodeRecord) as journal:
                episodes = journal.lines
        self._ledger.commit_stage(self._open(cycle, stage, request), record, episodes)

    def _end(self, cycle: int, stage: str, request: Request, state: str, error: str) -> None:
        self._ledger.end_attempt(self._open(cycle, stage, request), state, error)

    def _open(self, cycle: int, stage: str, request: Request) -> AttemptRow:
        """The attempt that is running. A controller that was killed between the ledger and the
        process may have left none; then this is it."""
        for attempt in reversed(self._ledger.attempts(self._run)):
            if (attempt.cycle, attempt.stage, attempt.state) == (cycle, stage, "running"):
                return attempt
        return self._ledger.start_attempt(self._run, cycle, stage, request)

    def _cancelled(self, cycle: int, stage: str, request: Request, ending: Ending) -> EndRun | None:
        if ending.kind == "hang":
            self._end(cycle, stage, request, "failed", ending.reason)
            return self._give_up(cycle, stage, "failed", self._config.max_attempts)
        self._end(cycle, stage, request, "cancelled", ending.reason)
        return EndRun("finished", ending.reason) if ending.kind == "budget" else None

    def _give_up(self, cycle: int, stage: str, how: str, tries: int) -> EndRun | None:
        """The end of the run after too many bad attempts; improving is given up alone."""
        row = self._ledger.run(self._run)
        since = row.resumed_at if row else 0.0
        bad = [
            attempt
            for attempt in self._ledger.attempts(self._run)
            if (attempt.cycle, attempt.stage, attempt.state) == (cycle, stage, how)
            and attempt.started_at >= since
        ]
        if len(bad) < tries:
            return None
        if stage == "improve":
            self._ledger.end_attempt(bad[-1], "skipped", bad[-1].error)
            return None
        return EndRun("failed", f"{stage} of cycle {cycle}: {bad[-1].error}")

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
