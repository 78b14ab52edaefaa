"""A request, and raw SQL on a ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lefleet.ledger import read_ledger, schema
from lefleet.ledger.address import FILE, read_pointer
from lefleet.records import ExpertDemos
from tests.postgres import execute_at

only_sqlite = pytest.mark.parametrize("workdir", ["sqlite"], indirect=True)
REQUEST = ExpertDemos(tasks=("push",))


def has_controller(folder: Path) -> bool:
    """Whether the run in `folder` has one."""
    with closing(read_ledger(folder.parent)) as ledger:
        return ledger.controllers.host(folder.name) is not None


def execute(workdir: Path, statement: str, *rows: tuple) -> list[tuple]:
    """Raw SQL, as a person with sqlite3 or psql would do it."""
    pointer = read_pointer(workdir)
    if pointer is not None:
        return execute_at(pointer.url, statement.replace("?", "%s"), *rows)
    connection = sqlite3.connect(workdir / FILE)
    try:
        if rows:
            found = connection.executemany(statement, rows).fetchall()
        else:
            found = connection.execute(statement).fetchall()
        connection.commit()
    finally:
        connection.close()
    return found


def everything(workdir: Path) -> dict[str, list[tuple]]:
    """All rows but the leases."""
    names = [one.name for one in schema.metadata.sorted_tables if one.name != "controller_lease"]
    return {name: sorted(execute(workdir, f"SELECT * FROM {name}"), key=repr) for name in names}
