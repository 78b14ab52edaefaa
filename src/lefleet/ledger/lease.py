"""Leases on a server: who may write as the controller of a run, with a token that grows.

A holder renews its lease with every write, and every few seconds while it has nothing to write. No
thread does that: a process with two threads cannot be forked, and stages are forks. A holder that
was suspended or busy for longer than the lease keeps it unless another process has asked for it
meanwhile. If one has, the token is another, and the server refuses every further write: the check
is part of each transaction, so it does not matter when a process sleeps.

Time is the server's alone.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Integer,
    Row,
    String,
    Table,
    cast,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from lefleet.errors import LeaseLost, LedgerUnavailable, LeFleetError
from lefleet.ledger import schema
from lefleet.process.liveness import has_ended, this_process

LEASE_S = 60.0
"""How long a run whose machine has died waits before another machine may continue it. Importing
LeRobot or drawing plots, during which nothing is renewed, takes seconds."""
RENEWALS = 12
"""In each lease, so that a few may fail."""
controller_lease = Table(
    "controller_lease",
    schema.metadata,
    Column("run", String, ForeignKey("run.id"), primary_key=True),
    Column("token", Integer, nullable=False),
    Column("process", String, nullable=False),
    Column("host", String, nullable=False),
    Column("expires_at", Float, nullable=False),
)
_NOW = cast(func.extract("epoch", func.clock_timestamp()), Float)


class LeaseFence:
    """What every write through one ledger must stand on: nothing, or a lease that still holds."""

    def __init__(self) -> None:
        self._held: tuple[str, int] | None = None
        self.renewed_s = 0.0

    def set(self, run: str, token: int) -> None:
        self._held = run, token
        self.renewed_s = _clock_s()

    def clear(self) -> None:
        self._held = None

    @property
    def is_set(self) -> bool:
        return self._held is not None

    def check(self, connection: Connection) -> None:
        """Renew the lease, as the first part of a transaction that writes. Raises LeaseLost."""
        if self._held is None:
            return
        table, (run, token) = controller_lease, self._held
        renewed = connection.execute(
            update(table)
            .where(table.c.run == run, table.c.token == token)
            .values(expires_at=_NOW + LEASE_S)
        )
        if not renewed.rowcount:
            host = connection.execute(select(table.c.host).filter_by(run=run)).scalar()
            raise LeaseLost(
                f"Another controller{f' on {host}' if host else ''} has taken over {run}: this one "
                f"on {socket.gethostname()} had not renewed its lease for {LEASE_S:g} s. It exits "
                "and writes nothing."
            )
        self.renewed_s = _clock_s()


class Leases:
    """A row for each run that ever had a controller."""

    def __init__(self, engine: Engine, reads: Engine, fence: LeaseFence) -> None:
        self._engine = engine
        self._reads = reads
        self._fence = fence

    @contextmanager
    def hold(self, run: str) -> Iterator[bool]:
        token = self._take(run)
        if token is None:
            yield False
            return
        self._fence.set(run, token)
        try:
            yield True
        except LedgerUnavailable:
            # The lease runs out by itself, and at once for this machine when the process is gone.
            self._fence.clear()
            raise
        finally:
            if self._fence.is_set:
                self._fence.clear()
                with suppress(LeFleetError, SQLAlchemyError):
                    self._release(run, token)

    def renew(self) -> None:
        if self._fence.is_set and _clock_s() - self._fence.renewed_s > LEASE_S / RENEWALS:
            with self._engine.begin():
                """The fence renews it."""

    def host(self, run: str) -> str | None:
        query = select(controller_lease, _NOW.label("now")).filter_by(run=run)
        with self._reads.connect() as connection:
            row = connection.execute(query).first()
        return row.host if row is not None and _is_running(row) else None

    def running(self) -> list[str]:
        """Runs that have a controller."""
        with self._reads.connect() as connection:
            rows = connection.execute(select(controller_lease, _NOW.label("now"))).all()
        return sorted(row.run for row in rows if _is_running(row))

    def _take(self, run: str) -> int | None:
        """The token of the lease; None where another process has it."""
        table = controller_lease
        holder = {"process": this_process(), "host": socket.gethostname()}
        with self._engine.begin() as connection:
            row = connection.execute(
                select(table, _NOW.label("now")).where(table.c.run == run)
            ).first()
            if row is not None and _is_running(row):
                return None
            token = row.token + 1 if row is not None else 1
            values: dict[str, Any] = {**holder, "token": token, "expires_at": _NOW + LEASE_S}
            if row is None:
                connection.execute(insert(table).values(run=run, **values))
            else:
                connection.execute(update(table).where(table.c.run == run).values(values))
            return token

    def _release(self, run: str, token: int) -> None:
        """The row stays, so that the token grows."""
        table = controller_lease
        with self._engine.begin() as connection:
            connection.execute(
                update(table)
                .where(table.c.run == run, table.c.token == token)
                .values(process="", expires_at=0.0)
            )


def _is_running(row: Row[Any]) -> bool:
    """Whether the holder may be at work. One that ended on this machine is not, though its lease
    has not run out."""
    return bool(row.process) and row.now < row.expires_at and not has_ended(row.process)


def _clock_s() -> float:
    """Also counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
