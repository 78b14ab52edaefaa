"""What every database of a ledger has in common: two engines, and the errors that people read."""

from typing import NamedTuple

from sqlalchemy import Engine, inspect

from lefleet.errors import LedgerUnavailable

READS = "lefleet_reads"
"""Execution option of connections that only read: they do not wait for a writer."""
LOCK_WAIT_S = 30.0
"""How long to wait for another process that writes."""


class Engines(NamedTuple):
    """Connections that write take their turn; those that read see one moment of the ledger."""

    writes: Engine
    reads: Engine


def revision(reads: Engine) -> str | None:
    """The schema of a ledger; None where nothing was created yet."""
    with reads.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        query = "SELECT version_num FROM alembic_version"
        return str(connection.exec_driver_sql(query).scalar_one())


def locked(place: str, remedy: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The ledger {place} is locked: another process has been writing for {LOCK_WAIT_S:g} s.",
        f"Try again. If it stays locked, {remedy}",
    )
