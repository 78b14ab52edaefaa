"""What a run is doing at this moment, and what it waits for."""

import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from lefleet.ledger import AttemptRow, Ledger, RunRow
from lefleet.ledger.rows import RunHead
from lefleet.loop.limits import backoff_s
from lefleet.loop.requests import stage_folder
from lefleet.loop.state import RunState, read_state
from lefleet.loop.steps import AwaitAnswer, Decide, EndRun, Propose, RunStage, next_step
from lefleet.stages.folder import is_locked
from lefleet.stages.progress import StageProgress, Update, read_progress, timed

START_S = 30.0
"""How long a run may be without a controller before it counts as interrupted: a new one needs a
moment to take its lock."""


class Wait(NamedTuple):
    """What a run waits for, such as the next attempt at a stage."""

    kind: Literal["resume", "retry", "stop"]
    what: str
    until: float | None = None
    """Seconds since 1970, where that is known."""


class Activity(NamedTuple):
    """Where a run is."""

    cycle: int
    cycles: int
    """All that its budget allows."""
    stage: str
    """Empty between two stages."""
    attempt: int
    """At the stage; 0 while none is running."""
    since: float
    """When this began, in seconds since 1970."""
    phase: str
    """What the controller does while no stage is running, or the stage before it says so."""
    wait: Wait | None
    folder: Path
    """Of the stage."""

    def progress(self) -> StageProgress:
        """The newest report of the stage, or of the controller that is about to start it; else the
        controller's phase."""
        if self.attempt or self.wait is None:
            said = read_progress(self.folder)
            # An earlier attempt may have left one.
            if said is not None and said.at >= self.since:
                return said
        return timed(Update.phase(self.phase), None, self.since)

    def as_json(self) -> dict[str, Any]:
        """With the newest progress, and about how many seconds are left."""
        progress = self.progress()
        return {
            "cycle": self.cycle,
            "cycles": self.cycles,
            "stage": self.stage,
            "attempt": self.attempt,
            "progress": msgspec.to_builtins(progress),
            "eta_s": progress.eta_s(time.time()),
            "wait": self.wait._asdict() if self.wait else None,
        }


def activity(ledger: Ledger, row: RunRow, folder: Path, *, is_controlled: bool) -> Activity | None:
    """What the run in `folder` is doing; None when it has ended."""
    if row.state != "running":
        return None
    return activity_of_state(read_state(ledger, row), row, folder, is_controlled=is_controlled)


def activity_of_state(
    state: RunState, row: RunRow, folder: Path, *, is_controlled: bool
) -> Activity | None:
    """As `activity`, of what was read before."""
    if row.state != "running":
        return None
    attempts = state.attempts
    cycles = state.config.budgets.cycles
    since = max([row.resumed_at, *(one.ended_at or 0.0 for one in attempts)])
    wait = _wait(row, is_controlled=is_controlled)
    running = [one for one in attempts if one.state == "running"]
    if running and (is_controlled or is_locked(_folder(folder, running[-1]))):
        one = running[-1]
        return Activity(
            cycle=one.cycle,
            cycles=cycles,
            stage=one.stage,
            attempt=one.attempt,
            since=one.started_at,
            phase="starting the process",
            wait=wait,
            folder=_folder(folder, one),
        )
    cycle, stage, phase = state.current.index, "", ""
    match next_step(state):
        case Propose(cycle):
            phase = "settling what the cycle does"
        case AwaitAnswer():
            phase = "asking a person"
        case Decide():
            phase = "deciding"
        case EndRun():
            phase = "writing the summary and the plots"
        case RunStage(cycle, stage):
            made = [one for one in attempts if (one.cycle, one.stage) == (cycle, stage)]
            wait = wait or _retry(made, row)
            phase = "starting"
    if wait is not None:
        phase = f"waiting for {wait.what}"
    elif not is_controlled:
        phase = "starting the controller"
    return Activity(cycle, cycles, stage, 0, since, phase, wait, stage_folder(folder, cycle, stage))


def _folder(run: Path, attempt: AttemptRow) -> Path:
    return stage_folder(run, attempt.cycle, attempt.stage)


def is_interrupted(row: RunRow | RunHead, *, is_controlled: bool) -> bool:
    """Whether a run is unfinished and has no running controller."""
    is_fresh = time.time() - row.resumed_at < START_S
    return row.state == "running" and not is_fresh and not is_controlled


def _wait(row: RunRow, *, is_controlled: bool) -> Wait | None:
    if is_interrupted(row, is_controlled=is_controlled):
        return Wait("resume", "a controller: none is running")
    if row.stop_requested:
        return Wait("stop", "the stage to end: a stop was requested")
    return None


def _retry(made: list[AttemptRow], row: RunRow) -> Wait | None:
    """The wait after a stage was killed several times in a row."""
    now = time.time()
    wait_s = backoff_s(made, row.resumed_after, now)
    if not wait_s:
        return None
    last = made[-1]
    clock = time.strftime("%H:%M:%S", time.localtime(now + wait_s))
    what = f"attempt {last.attempt + 1} at {clock}; attempt {last.attempt}: {last.error}"
    return Wait("retry", what, now + wait_s)
