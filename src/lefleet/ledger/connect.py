"""Open a ledger: to write, creating or migrating it where that is allowed, or only to read."""

import fcntl
import sqlite3
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Engine, NullPool, StaticPool, create_engine, event, inspect

from lefleet.errors import MISSING, BadInput, LeFleetError, why_not_a_folder
from lefleet.ledger import schema
from lefleet.ledger.store import READS, Ledger
from lefleet.process import is_held

FILE = "ledger.db"
LOCK = ".ledger.lock"
"""Locked while a process opens the ledger to write, and shared by readers of a closed ledger."""
CONTROLLER_LOCK = ".controller.lock"
"""In the folder of a run: locked while a controller works on it."""
LOCK_WAIT_S = 30.0
"""How long to wait for another process that writes."""
_MIGRATIONS = Path(__file__).parent / "migrations"


def open_ledger(workdir: Path, *, create: bool = True, migrate: bool = True) -> Ledger:
    """The ledger of `workdir`, to read and write.

    `create` makes one where there is none. `migrate` brings an older one up to date, unless a
    controller is using it. One process at a time does either. A process killed in between leaves
    nothing half made, because a migration is one transaction.
    """
    path = workdir / FILE
    _require_folder(workdir)
    if not create and not path.exists():
        raise BadInput(
            f"workdir: there is no ledger in {workdir}.",
            "Name the --workdir that the run was begun with.",
        )
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with (workdir / LOCK).open("w") as lock:
            _lock(lock, workdir, fcntl.LOCK_EX)
            engine = _writing(path)
            _bring_up_to_date(engine, workdir, migrate=migrate)
    except OSError as error:
        raise _unusable(workdir, str(error.strerror)) from error
    return Ledger(engine)


def read_ledger(workdir: Path) -> Ledger:
    """The ledger of `workdir`, only to read; writes no file. A missing one has no runs."""
    path = workdir / FILE
    _require_folder(workdir)
    engine = _reading(path)
    revision = _revision(engine) if path.exists() else None
    if revision is None:
        # One connection, that any thread may read: readers of a file have one each.
        anywhere = {"check_same_thread": False}
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args=anywhere)
        schema.metadata.create_all(engine)
    elif revision != schema.REVISION:
        raise _other_schema(path, revision)
    return Ledger(engine)


def _require_folder(workdir: Path) -> None:
    """A missing one is none that cannot be used."""
    if (problem := why_not_a_folder(workdir)) not in ("", MISSING):
        raise BadInput(f"workdir: {workdir} {problem}.", "Name another --workdir.")


def _writing(path: Path) -> Engine:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"timeout": LOCK_WAIT_S})

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

    return _with_plain_errors(engine, path)


class _ReadConnection(sqlite3.Connection):
    """Holds the lock on a ledger that no process has open, so that none changes it meanwhile."""

    held = ExitStack()

    def close(self) -> None:
        super().close()
        self.held.close()


def _reading(path: Path) -> Engine:
    """Each connection checks again whether a process has the ledger open: then there is a
    write-ahead log. Without one, a reader that takes SQLite's locks would have to create it."""

    def connect() -> sqlite3.Connection:
        with ExitStack() as held:
            # A copy of the file alone has no lock.
            with suppress(FileNotFoundError):
                lock = held.enter_context((path.parent / LOCK).open())
                _lock(lock, path.parent, fcntl.LOCK_SH)
            is_open = path.with_name(path.name + "-wal").exists()
            query = "mode=ro" if is_open else "mode=ro&immutable=1"
            url = f"{path.absolute().as_uri()}?{query}"
            connection = sqlite3.connect(
                url, uri=True, timeout=LOCK_WAIT_S, factory=_ReadConnection
            )
            if not is_open:
                connection.held = held.pop_all()
        return connection

    return _with_plain_errors(create_engine("sqlite://", creator=connect, poolclass=NullPool), path)


def _with_plain_errors(engine: Engine, path: Path) -> Engine:
    @event.listens_for(engine, "handle_error")
    def explain(context: Any) -> None:
        error = context.original_exception
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise _locked(path.parent) from error
        if isinstance(error, sqlite3.OperationalError):
            raise _unusable(path.parent, str(error)) from error
        if type(error) is sqlite3.DatabaseError:
            raise BadInput(
                f"{path} is not a ledger: {error}.", "Move it away, or name another workdir."
            ) from error

    return engine


def _unusable(workdir: Path, reason: str) -> LeFleetError:
    return LeFleetError(
        f"The ledger in {workdir} cannot be used: {reason}.",
        "Check the folder's permissions and the free space of its disk.",
    )


def _locked(workdir: Path) -> LeFleetError:
    return LeFleetError(
        f"The ledger in {workdir} is locked: another process has been writing for "
        f"{LOCK_WAIT_S:g} s.",
        f"Try again. If it stays locked, end the process that holds it: fuser -v {workdir / FILE}",
    )


def _other_schema(path: Path, revision: str) -> BadInput:
    if revision > schema.REVISION:
        return BadInput(
            f"{path} was written by a newer lefleet (schema {revision}).",
            "Use that lefleet, or name another workdir.",
        )
    return BadInput(
        f"{path} was written by an older lefleet (schema {revision}).",
        "lefleet run and lefleet resume bring it up to date.",
    )


def _revision(engine: Engine) -> str | None:
    """The schema of a ledger; None where nothing was created yet."""
    with engine.execution_options(**{READS: True}).connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        query = "SELECT version_num FROM alembic_version"
        return str(connection.exec_driver_sql(query).scalar_one())


def _lock(file: IO[str], workdir: Path, kind: int) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise _locked(workdir) from error
            time.sleep(0.05)
        else:
            return


def _bring_up_to_date(engine: Engine, workdir: Path, *, migrate: bool) -> None:
    path, revision = workdir / FILE, _revision(engine)
    if revision == schema.REVISION:
        return
    if revision is not None and (revision > schema.REVISION or not migrate):
        raise _other_schema(path, revision)
    for lock in workdir.glob(f"*/{CONTROLLER_LOCK}") if revision is not None else ():
        if is_held(lock):
            run = lock.parent.name
            raise BadInput(
                f"{path} was written by an older lefleet (schema {revision}), and the controller "
                f"of {run} is using it.",
                f"Stop that run with the older lefleet first: lefleet stop {run}",
            )
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
