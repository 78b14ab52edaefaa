"""What the ledger answers with: rows of its tables, typed."""

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row

from lefleet.records import Record, Request


class RunRow(NamedTuple):
    """One run."""

    id: str
    state: str
    """running, finished, stopped or failed."""
    reason: str
    config: dict[str, Any]
    stop_requested: bool
    created_at: float
    resumed_at: float
    """When it was last started or taken up again."""
    resumed_after: int
    """Id of the last attempt before that; bad attempts up to it do not count."""


class AttemptRow(NamedTuple):
    """One attempt at a stage."""

    id: int
    run: str
    cycle: int
    stage: str
    attempt: int
    state: str
    """running, committed, failed, gone, cancelled or skipped."""
    request: Request
    record: Record | None
    error: str
    started_at: float
    ended_at: float | None
    """None while it runs, and where nobody saw its end."""


class EventRow(NamedTuple):
    """Something that happened."""

    id: int
    at: float
    kind: str
    data: dict[str, Any]


def run_row(row: Row[Any]) -> RunRow:
    return RunRow(
        row.id,
        row.state,
        row.reason,
        row.config,
        bool(row.stop_requested),
        row.created_at,
        row.resumed_at,
        row.resumed_after,
    )


def attempt_row(row: Row[Any]) -> AttemptRow:
    return AttemptRow(
        row.id,
        row.run,
        row.cycle,
        row.stage,
        row.attempt,
        row.state,
        msgspec.convert(row.request, Request),
        None if row.record is None else msgspec.convert(row.record, Record),
        row.error,
        row.started_at,
        row.ended_at,
    )
