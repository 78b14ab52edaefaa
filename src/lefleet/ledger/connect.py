"""Open a ledger: create it, bring it up to date, or refuse it in one sentence."""

import fcntl
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError

from lefleet.errors import BadInput, LeFleetError
from lefleet.ledger.store import READS, Ledger

FILE = "ledger.db"
_MIGRATIONS = Path(__file__).parent / "migrations"


def open_ledger(workdir: Path) -> Ledger:
    """The ledger of `workdir`, made if it is not there.

    One process at a time creates or migrates: SQLite would let two of them interleave. A process
    killed in between leaves nothing half made, because each migration is one transaction.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with (workdir / ".ledger.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            engine = _engine(workdir / FILE)
            _migrate(engine, workdir / FILE)
    except (OSError, OperationalError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error.orig)
        raise LeFleetError(
            f"The ledger in {workdir} cannot be used: {reason}.",
            "Check the folder's permissions and the free space of its disk.",
        ) from error
    except DatabaseError as error:
        raise BadInput(
            f"{workdir / FILE} is not a ledger: {error.orig}.",
            "Move it away, or name another workdir.",
        ) from error
    return Ledger(engine)


def _engine(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": 30.0})

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

    return engine


def _migrate(engine: Engine, path: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with engine.begin() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
        if current is not None and current not in known:
            raise BadInput(
                f"{path} was written by a newer lefleet (schema {current}).",
                "Use that lefleet, or name another workdir.",
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
