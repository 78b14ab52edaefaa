"""Rows of the tables as typed values."""

import time
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, insert

from lefleet.ledger.schema import event
from lefleet.records import Record, Request


class RunHead(NamedTuple):
    """One run without its config: what a list of many runs begins with."""

    id: str
    state: str
    reason: str
    created_at: float
    resumed_at: float


class RunRow(NamedTuple):
    """One run."""

    id: str
    state: str
    """running, waiting (for a person), finished, stopped, failed or denied (by its
    constitution)."""
    reason: str
    config: dict[str, Any]
    """As it was begun; never changed."""
    stop_requested: bool
    created_at: float
    resumed_at: float
    """When it was begun or last resumed."""
    resumed_after: int
    """Id of the last attempt before that; bad attempts up to it do not count."""
    budgets: dict[str, Any] | None
    """Those that hold now, where they were changed after the begin."""
    origin: dict[str, Any] | None
    """The run that it started from, with all that it took from there."""
    constitution: dict[str, Any] | None = None
    """The rules that hold; None in runs of older ledgers."""
    corrections: dict[str, Any] | None = None
    """Other fields of the config that were changed after the begin, as they hold now."""

    @property
    def corrected_config(self) -> dict[str, Any]:
        """As it holds now, but for budgets."""
        return self.config | (self.corrections or {})


class AttemptRow(NamedTuple):
    """One attempt at a stage."""

    id: int
    run: str
    cycle: int
    stage: str
    attempt: int
    state: str
    """running, committed, failed, killed (a child of the stage), gone (the stage itself), cancelled
    or skipped."""
    request: Request
    record: Record | None
    error: str
    started_at: float
    ended_at: float | None
    """None while it runs, and where its end is not known."""
    recorded: int
    """Episodes and training steps that the stage had on disk when the attempt ended."""
    waited_s: float
    """From its start until a cluster had room for it; 0 on one machine."""

    def worked_s(self, now: float = 0.0) -> float:
        """Seconds between its start and its end, without the wait; one that is running counts until
        `now`."""
        end = now if self.state == "running" else self.ended_at
        return max(0.0, (end or self.started_at) - self.started_at - self.waited_s)


class EventRow(NamedTuple):
    """One event."""

    id: int
    at: float
    kind: str
    data: dict[str, Any]


def insert_event(connection: Connection, run: str, kind: str, data: dict[str, Any]) -> int:
    """Its id. Part of the transaction that does what the event tells of."""
    values = {"run": run, "at": time.time(), "kind": kind, "data": data}
    return int(connection.execute(insert(event).values(values).returning(event.c.id)).scalar_one())


def run_row(row: Row[Any]) -> RunRow:
    return RunRow(*(getattr(row, name) for name in RunRow._fields))


def attempt_row(row: Row[Any]) -> AttemptRow:
    values = {name: getattr(row, name) for name in AttemptRow._fields}
    values["request"] = msgspec.convert(row.request, Request)
    if row.record is not None:
        values["record"] = msgspec.convert(row.record, Record)
    return AttemptRow(**values)
