"""The books of a run: its attempts at stages, as the ledger has them and the stage folders show."""

import time
from pathlib import Path

from lefleet.errors import BadInput
from lefleet.ledger import AttemptRow, Ledger
from lefleet.ledger.store import UNSEEN
from lefleet.loop.attempt import break_off, cancel
from lefleet.loop.requests import stage_folder
from lefleet.loop.watch import last_sign_of_life
from lefleet.records import ComparisonRecord, EpisodeRecord, EvaluationRecord, Record, Request
from lefleet.stages.folder import RECORD, is_locked
from lefleet.stages.journal import Journal


class Books:
    """Who closes an attempt says when it ended: nobody may have been there to see it."""

    def __init__(self, ledger: Ledger, run: str, folder: Path) -> None:
        self._ledger = ledger
        self._run = run
        self._folder = folder

    def opened(self) -> list[AttemptRow]:
        """Attempts whose end is not known yet."""
        return [one for one in self._ledger.attempts(self._run) if one.state == "running"]

    def current(self, cycle: int, stage: str, request: Request) -> AttemptRow:
        """The attempt under way. Where a stage was started by hand there is none; then this is."""
        for attempt in self.opened():
            if (attempt.cycle, attempt.stage) == (cycle, stage):
                return attempt
        return self._ledger.start_attempt(self._run, cycle, stage, request)

    def commit(self, attempt: AttemptRow, record: Record) -> None:
        """Take over what a stage brought."""
        folder = self._stage(attempt)
        episodes: list[EpisodeRecord] = []
        if isinstance(record, EvaluationRecord | ComparisonRecord):
            with Journal(folder / record.episodes_file, EpisodeRecord) as journal:
                episodes = journal.lines
        ended_at = (folder / RECORD).stat().st_mtime
        self._ledger.commit_stage(attempt, record, episodes, ended_at=ended_at)

    def abandon(self, attempt: AttemptRow) -> None:
        """Close an attempt that ended while no controller lived."""
        ended_at = last_sign_of_life(self._stage(attempt))
        self._ledger.end_attempt(attempt, "gone", UNSEEN, ended_at=ended_at)

    def settle(self, reason: str) -> None:
        """Leave nothing open and nothing running: take what is done, end what is not."""
        for attempt in self.opened():
            folder = self._stage(attempt)
            ended_at = time.time() if is_locked(folder) else last_sign_of_life(folder)
            try:
                record = break_off(attempt.request, folder)
            except BadInput as error:
                self._ledger.end_attempt(attempt, "failed", str(error), ended_at=ended_at)
                continue
            if record is None:
                self._ledger.end_attempt(attempt, "cancelled", reason, ended_at=ended_at)
            else:
                self.commit(attempt, record)
        for folder in self._folder.glob("cycle_*/*"):
            cancel(folder)

    def bad(self, cycle: int, stage: str, how: str) -> list[AttemptRow]:
        """Attempts that ended so since the run was last taken up."""
        row = self._ledger.run(self._run)
        return [
            attempt
            for attempt in self._ledger.attempts(self._run)
            if (attempt.cycle, attempt.stage, attempt.state) == (cycle, stage, how)
            and row is not None
            and attempt.id > row.resumed_after
        ]

    def _stage(self, attempt: AttemptRow) -> Path:
        return stage_folder(self._folder, attempt.cycle, attempt.stage)
