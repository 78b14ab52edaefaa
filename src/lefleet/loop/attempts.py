"""The attempts at a run's stages: opened and closed in the ledger, as the stage folders show."""

import time
from pathlib import Path

from lefleet.errors import BadInput, ChildKilled, Denied, LeFleetError
from lefleet.executors import Executor
from lefleet.ledger import AttemptRow, Ledger
from lefleet.ledger.store import UNSEEN
from lefleet.loop.limits import attempts_used
from lefleet.loop.requests import stage_folder
from lefleet.loop.stage_process import (
    JOURNALS,
    StageCancelled,
    StageGone,
    last_sign_of_life,
)
from lefleet.loop.steps import EndRun
from lefleet.records import (
    CheckpointRecord,
    ComparisonRecord,
    EpisodeRecord,
    EvaluationRecord,
    Record,
    Request,
)
from lefleet.stages.folder import (
    RECORD,
    Journal,
    committed,
    is_locked,
    is_same_result,
    read_request,
    set_aside,
)

MAX_GONE = 50
"""Attempts at one stage whose own process was killed and that recorded nothing new, before the run
fails."""
_COUNT_EVERY_S = 5.0


class Attempts:
    """The attempts of one run. An attempt may have ended while no controller was running, so
    closing one takes the time from the stage's files."""

    def __init__(self, ledger: Ledger, run: str, folder: Path, executor: Executor) -> None:
        self._ledger = ledger
        self._run = run
        self._folder = folder
        self._executor = executor
        self._waits: list[dict[str, object]] = []
        """Those that were told."""
        self._counted = -_COUNT_EVERY_S

    def of(self, cycle: int, stage: str) -> list[AttemptRow]:
        """All attempts at one stage, oldest first."""
        found = self._ledger.attempts(self._run)
        return [one for one in found if (one.cycle, one.stage) == (cycle, stage)]

    def unfinished(self) -> list[AttemptRow]:
        """Attempts whose end is not known yet."""
        return [one for one in self._ledger.attempts(self._run) if one.state == "running"]

    def current(self, cycle: int, stage: str, request: Request) -> AttemptRow:
        """The attempt that is running; a new one where the stage was started by hand."""
        for attempt in self.of(cycle, stage):
            if attempt.state == "running":
                return attempt
        return self._ledger.start_attempt(self._run, cycle, stage, request)

    def begin_anew(self, cycle: int, stage: str, request: Request) -> None:
        """Set the folder of an unfinished stage aside if the run's config was changed since it was
        begun. A folder that the run did not begin itself stays, and is refused."""
        folder = stage_folder(self._folder, cycle, stage)
        begun, made = read_request(folder), self.of(cycle, stage)
        if begun is None or not made or is_same_result(begun, request):
            return
        if is_same_result(begun, made[-1].request) and (kept := set_aside(folder)) is not None:
            data = {"cycle": cycle, "stage": stage, "kept": kept.name}
            self._ledger.add_event(self._run, "stage_begins_anew", data)

    def tell_wait(self, cycle: int, stage: str, what: str) -> None:
        """Tell, once, what a stage waits for."""
        data = {"cycle": cycle, "stage": stage, "what": what}
        if data not in self._waits:
            self._waits.append(data)
            self._ledger.add_event(self._run, "stage_waits", data)

    def waits(self, cycle: int, stage: str, what: str) -> None:
        """The running attempt has waited since its start, and waits still. Kept every few seconds,
        so that the next controller knows of it too."""
        self.tell_wait(cycle, stage, what)
        if time.monotonic() - self._counted < _COUNT_EVERY_S:
            return
        self._counted = time.monotonic()
        for attempt in self.of(cycle, stage):
            if attempt.state == "running":
                self._ledger.record_wait(attempt, time.time() - attempt.started_at)

    def commit(self, attempt: AttemptRow, record: Record) -> None:
        """Commit a stage's record, with its episodes."""
        folder = self._stage(attempt)
        episodes: list[EpisodeRecord] = []
        if isinstance(record, EvaluationRecord | ComparisonRecord):
            with Journal(folder / record.episodes_file, EpisodeRecord) as journal:
                episodes = journal.lines
        ended_at = (folder / RECORD).stat().st_mtime
        self._ledger.commit_stage(attempt, record, episodes, ended_at=ended_at)
        if isinstance(record, CheckpointRecord) and record.wandb_problem:
            data = {"tracker": "wandb", "error": record.wandb_problem, "cycle": attempt.cycle}
            self._ledger.add_event(self._run, "track_failed", data)

    def close(
        self, attempt: AttemptRow, state: str, error: str, ended_at: float | None = None
    ) -> None:
        """Close an attempt that brought no record; without `ended_at` it ended now."""
        amount = recorded(self._stage(attempt))
        self._ledger.end_attempt(attempt, state, error, recorded=amount, ended_at=ended_at)

    def conclude(
        self,
        attempt: AttemptRow,
        error: StageCancelled | StageGone | LeFleetError,
        *,
        after: int,
        most: int,
    ) -> EndRun | None:
        """Close an attempt that brought no record; ends the run where no other may follow: `most`
        may fail, of those behind the attempt `after`."""
        if isinstance(error, StageCancelled) and error.cancellation.kind != "hang":
            self.close(attempt, "cancelled", str(error))
            is_budget = error.cancellation.kind == "budget"
            return EndRun("finished", str(error)) if is_budget else None
        state = "killed" if isinstance(error, ChildKilled) else "failed"
        state = "gone" if isinstance(error, StageGone) else state
        self.close(attempt, state, str(error))
        made = self.of(attempt.cycle, attempt.stage)
        if state == "gone":
            is_last = attempts_used(made, after, "gone") >= MAX_GONE
        else:
            used = attempts_used(made, after, "failed", "killed")
            is_last = used >= most or isinstance(error, BadInput)
        if isinstance(error, Denied):
            raise error
        if not is_last:
            return None
        if attempt.stage in ("improve", "propose"):
            self.close(attempt, "skipped", str(error), made[-1].ended_at)
            return None
        return EndRun("failed", f"{attempt.stage} of cycle {attempt.cycle}: {error}")

    def abandon(self, attempt: AttemptRow) -> None:
        """Close an attempt that ended while no controller was running."""
        self.close(attempt, "gone", UNSEEN, last_sign_of_life(self._stage(attempt)))

    def settle(self, reason: str) -> None:
        """Leave nothing open and nothing running: take what is done, end what is not."""
        unfinished = [(attempt, self._last_moment(attempt)) for attempt in self.unfinished()]
        self._executor.cancel(set(self._folder.glob("cycle_*/*")))
        for attempt, moment in unfinished:
            try:
                record = committed(self._stage(attempt), attempt.request)
            except BadInput as error:
                self.close(attempt, "failed", str(error), moment)
                continue
            if record is None:
                self.close(attempt, "cancelled", reason, moment)
            else:
                self.commit(attempt, record)

    def _last_moment(self, attempt: AttemptRow) -> float:
        folder = self._stage(attempt)
        return time.time() if is_locked(folder) else last_sign_of_life(folder)

    def _stage(self, attempt: AttemptRow) -> Path:
        return stage_folder(self._folder, attempt.cycle, attempt.stage)


def recorded(folder: Path) -> int:
    """How much of a stage's work is on disk, to resume from: episodes and training steps."""
    files = [folder / name for name in JOURNALS]
    episodes = sum(file.read_bytes().count(b"\n") for file in files if file.exists())
    last = (folder / "training" / "checkpoints" / "last").resolve().name
    return episodes + (int(last) if last.isdigit() else 0)
