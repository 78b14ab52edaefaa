"""What a run has come to, typed: as `lefleet status --json` prints it."""

import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import ApprovalRow, Ledger, RunRow
from lefleet.loop.activity import activity_of_state, is_interrupted
from lefleet.loop.state import RunState, read_state
from lefleet.loop.status import status_of_state
from lefleet.queries.words import progress_text
from lefleet.records import ApprovalAnswer, GateLevel, GateResult, Proposal
from lefleet.records.border import Strict
from lefleet.stages.progress import StageProgress

RunWord = Literal[
    "running", "waiting", "interrupted", "finished", "stopped", "failed", "denied", "unreadable"
]
"""The state of a run as people see it: one without its controller is interrupted."""


class BudgetUse(Strict, frozen=True, kw_only=True):
    """What is used of a budget; a limit of 0 is none."""

    used: float
    limit: float


class TaskStatus(Strict, frozen=True, kw_only=True):
    """Success of one task in a cycle's fixed block, with the exact 95 % interval."""

    success_rate: float
    interval: tuple[float, float]
    episodes: int


class CycleStatus(Strict, frozen=True, kw_only=True):
    """What a cycle has come to."""

    index: int
    decision: str | None
    why: str | None
    diagnosis: tuple[str, ...]
    success_rate: float | None
    interval: tuple[float, float] | None
    episodes: int | None
    demonstrations: int | None
    checkpoint_digest: str | None
    gate: GateResult | None
    level: GateLevel | None
    tasks: dict[str, TaskStatus]
    proposal: Proposal | None
    answer: ApprovalAnswer | None
    stages: tuple[str, ...]
    """Those that have committed."""


class WaitStatus(Strict, frozen=True, kw_only=True):
    """What a run waits for before it continues by itself."""

    kind: Literal["resume", "retry", "stop"]
    what: str
    until: float | None


class NowStatus(Strict, frozen=True, kw_only=True):
    """What a run is doing at this moment."""

    cycle: int
    cycles: int
    stage: str
    attempt: int
    progress: StageProgress
    eta_s: float | None
    wait: WaitStatus | None

    def text(self) -> str:
        """The progress in words."""
        return progress_text(self.progress, time.time())


class RunStatus(Strict, frozen=True, kw_only=True):
    """One run, as `lefleet status --json` prints it."""

    id: str
    state: str
    """As the ledger has it: running, waiting, finished, stopped, failed or denied."""
    reason: str
    origin: str | None
    elapsed_s: float | None
    budgets: dict[str, BudgetUse]
    device_hours: dict[str, float]
    """Of training and rollouts, by device, the most used one first."""
    tasks: tuple[str, ...]
    cycles: tuple[CycleStatus, ...]
    approvals: tuple[ApprovalRow, ...] = ()
    blessed: str | None
    blessed_path: str | None
    controlled: bool
    host: str | None
    """Machine that the controller is running on."""
    interrupted: bool
    now: NowStatus | None
    problem: str
    """Why this lefleet cannot read it; then it has no results."""

    @property
    def word(self) -> RunWord:
        if self.problem:
            return "unreadable"
        return "interrupted" if self.interrupted else msgspec.convert(self.state, RunWord)

    def open_approval(self) -> ApprovalRow | None:
        """The question that the run waits for."""
        return next((one for one in self.approvals if one.answer is None), None)

    def best(self) -> CycleStatus | None:
        """The cycle that made the blessed checkpoint."""
        made = [one for one in self.cycles if one.checkpoint_digest == self.blessed]
        return made[0] if made and self.blessed else None


def run_status(ledger: Ledger, workdir: Path, row: RunRow) -> RunStatus:
    """One run, read once."""
    try:
        state: RunState | BadInput = read_state(ledger, row)
    except BadInput as error:
        state = error
    folder = workdir / row.id
    return status_of(row, state, folder, ledger.controllers.host(row.id))


def status_of(row: RunRow, state: RunState | BadInput, folder: Path, host: str | None) -> RunStatus:
    """`host` is the machine that the run's controller is running on, if it has one."""
    controlled = host is not None
    about: dict[str, Any] = {
        "controlled": controlled,
        "host": host,
        "interrupted": is_interrupted(row, is_controlled=controlled),
        "now": None,
        "problem": "",
    }
    if isinstance(state, BadInput):
        known = {"id": row.id, "state": row.state, "reason": row.reason, "elapsed_s": None}
        nothing: dict[str, Any] = {
            "origin": None,
            "budgets": {},
            "device_hours": {},
            "tasks": [],
            "cycles": [],
            "blessed": None,
            "blessed_path": None,
        }
        return msgspec.convert(known | nothing | about | {"problem": state.problem}, RunStatus)
    now = activity_of_state(state, row, folder, is_controlled=controlled)
    about["now"] = now.as_json() if now else None
    return msgspec.convert(status_of_state(state, row) | about, RunStatus)
