"""A ledger in a file of its work folder."""

import fcntl
import sqlite3
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Engine, NullPool, StaticPool, create_engine, event

from lefleet.errors import BadInput, LedgerUnavailable
from lefleet.ledger import engines, schema
from lefleet.ledger.address import FILE
from lefleet.ledger.engines import READS, Engines

LOCK = ".ledger.lock"
"""Locked while a process opens the ledger to write, and shared by readers of a closed ledger."""


def writing(path: Path) -> Engines:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"timeout": engines.LOCK_WAIT_S})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # Transactions are begun below, so that creating tables is part of them too.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A writer takes its lock at once: one that reads first could not wait for another's.
        reads = connection.get_execution_options().get(READS, False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return _both(_with_plain_errors(engine, path))


class _ReadConnection(sqlite3.Connection):
    """Holds the lock on a ledger that no process has open, so that none changes it meanwhile."""

    held = ExitStack()

    def close(self) -> None:
        super().close()
        self.held.close()


def reading(path: Path) -> Engines:
    """Each connection checks again whether a process has the ledger open: then there is a
    write-ahead log. Without one, a reader that takes SQLite's locks would have to create it."""

    def connect() -> sqlite3.Connection:
        with ExitStack() as held:
            # A copy of the file alone has no lock.
            with suppress(FileNotFoundError):
                lock = held.enter_context((path.parent / LOCK).open())
                wait_for_lock(lock, path.parent, fcntl.LOCK_SH)
            is_open = path.with_name(path.name + "-wal").exists()
            query = "mode=ro" if is_open else "mode=ro&immutable=1"
            url = f"{path.absolute().as_uri()}?{query}"
            connection = sqlite3.connect(
                url, uri=True, timeout=engines.LOCK_WAIT_S, factory=_ReadConnection
            )
            if not is_open:
                connection.held = held.pop_all()
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    return _both(_with_plain_errors(engine, path))


def empty() -> Engines:
    """In memory, for readers of a ledger that was not created yet."""
    # One connection, that any thread may read: readers of a file have one each.
    anywhere = {"check_same_thread": False}
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args=anywhere)
    schema.metadata.create_all(engine)
    return _both(engine)


def wait_for_lock(file: IO[str], workdir: Path, kind: int) -> None:
    deadline = time.monotonic() + engines.LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise _locked(workdir) from error
            time.sleep(0.05)
        else:
            return


def unusable(workdir: Path, reason: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The ledger in {workdir} cannot be used: {reason}.",
        "Check the folder's permissions and the free space of its disk.",
    )


def _both(engine: Engine) -> Engines:
    return Engines(engine, engine.execution_options(**{READS: True}))


def _with_plain_errors(engine: Engine, path: Path) -> Engine:
    @event.listens_for(engine, "handle_error")
    def explain(context: Any) -> None:
        error = context.original_exception
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise _locked(path.parent) from error
        if isinstance(error, sqlite3.OperationalError):
            raise unusable(path.parent, str(error)) from error
        if type(error) is sqlite3.DatabaseError:
            raise BadInput(
                f"{path} is not a ledger: {error}.", "Move it away, or name another workdir."
            ) from error

    return engine


def _locked(workdir: Path) -> LedgerUnavailable:
    holder = f"end the process that holds it: fuser -v {workdir / FILE}"
    return engines.locked(f"in {workdir}", holder)
