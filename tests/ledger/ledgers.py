"""Small ledgers, new ones and old ones."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from lefleet.ledger import connect
from lefleet.records import ExpertDemos

REQUEST = ExpertDemos(tasks=("push",))


def old_ledger(workdir: Path, revision: str) -> Path:
    """The ledger that a lefleet of that schema left, with one run in it."""
    path = workdir / "ledger.db"
    config = Config()
    config.set_main_option("script_location", str(Path(connect.__file__).parent / "migrations"))
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    execute(
        path,
        "INSERT INTO run (id, number, state, config, created_at, resumed_at) "
        "VALUES ('old', 1, 'stopped', '{\"name\": \"old\"}', 5.0, 6.0)",
    )
    return path


def execute(path: Path, statement: str, *rows: tuple) -> list[tuple]:
    """Raw SQL, as a person with the sqlite3 program would do it."""
    connection = sqlite3.connect(path)
    try:
        if rows:
            found = connection.executemany(statement, rows).fetchall()
        else:
            found = connection.execute(statement).fetchall()
        connection.commit()
    finally:
        connection.close()
    return found
