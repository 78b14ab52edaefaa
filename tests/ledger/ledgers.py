"""A request, and raw SQL on a ledger."""

import sqlite3
from pathlib import Path

from lefleet.records import ExpertDemos

REQUEST = ExpertDemos(tasks=("push",))


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
