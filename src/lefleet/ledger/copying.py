"""Move the ledger of a work folder from its file to a server, or back."""

import fcntl
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import batched, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, Table, func, insert, select

from lefleet.errors import BadInput
from lefleet.ledger import postgres, schema, sqlite
from lefleet.ledger.address import (
    FILE,
    POINTER,
    LedgerPointer,
    parse_url,
    read_pointer,
    require_folder,
    shown,
    write_pointer,
)
from lefleet.ledger.connect import claim, controlled_runs, owner_of, upgrade, work_folder
from lefleet.ledger.engines import Engines, revision
from lefleet.ledger.file_system import require_local
from lefleet.ledger.lease import LeaseFence, Leases, controller_lease

KEPT = f"{FILE}.copied"
"""The file of a ledger that is on a server now."""
_AT_ONCE = 500
_OF_ITS_PLACE = (controller_lease, work_folder)
_TABLES = [table for table in schema.metadata.sorted_tables if table not in _OF_ITS_PLACE]


class LedgerCopy(NamedTuple):
    """What was copied."""

    source: str
    destination: str
    rows: dict[str, int]
    """By table."""


def copy_ledger(source: str, destination: str) -> LedgerCopy:
    """All rows of the source into the empty destination; the work folder uses that from then on.

    One of them is a work folder, the other one a URL. A destination that has exactly the rows of
    the source is one that a copy was killed after: the work folder then changes over to it.
    """
    is_there = "://" in destination
    if is_there == ("://" in source):
        raise BadInput(
            "ledger copy: it needs a work folder and the URL of a database.",
            "For instance: lefleet ledger copy runs postgresql+psycopg://lab@db/lefleet",
        )
    if is_there:
        return _to_server(_folder(source), parse_url(destination, "destination"))
    return _to_file(parse_url(source, "source"), _folder(destination))


def _to_server(workdir: Path, url: str) -> LedgerCopy:
    if (pointer := read_pointer(workdir)) is not None:
        raise BadInput(
            f"source: the ledger of {workdir} is on a server already: {shown(pointer.url)}.",
            f"Move it back first: lefleet ledger copy '{pointer.url}' {workdir}",
        )
    path = workdir / FILE
    if not path.exists():
        raise BadInput(f"source: there is no ledger in {workdir}.", "Name its work folder.")
    with ExitStack() as ends:
        lock = ends.enter_context((workdir / sqlite.LOCK).open("w"))
        sqlite.wait_for_lock(lock, workdir, fcntl.LOCK_EX)
        file, server = sqlite.writing(path), postgres.writing(url, LeaseFence())
        for one in (file, server):
            ends.callback(one.writes.dispose)
        rows = _copy(file, str(path), server, shown(url), lambda: controlled_runs(workdir))
        file.writes.dispose()
        if path.with_name(f"{FILE}-wal").exists():
            raise BadInput(
                f"source: another process has {path} open.", f"End it, then repeat: fuser -v {path}"
            )
        owner = owner_of(server.reads)
        pointer = LedgerPointer(url=url, id=owner[0] if owner else uuid.uuid4().hex)
        claim(server, pointer, workdir)
        write_pointer(workdir, pointer)
        path.rename(workdir / KEPT)
    return LedgerCopy(str(path), url, rows)


def _to_file(url: str, workdir: Path) -> LedgerCopy:
    require_local(workdir)
    pointer = read_pointer(workdir)
    if pointer is None or pointer.url != url:
        raise BadInput(
            f"source: {shown(url)} is not the ledger of {workdir}.",
            f"Name the work folder whose {POINTER} names it.",
        )
    path = workdir / FILE
    with ExitStack() as ends:
        lock = ends.enter_context((workdir / sqlite.LOCK).open("w"))
        sqlite.wait_for_lock(lock, workdir, fcntl.LOCK_EX)
        server, file = postgres.writing(url, LeaseFence()), sqlite.writing(path)
        for one in (file, server):
            ends.callback(one.writes.dispose)
        owner = owner_of(server.reads) if revision(server.reads) else None
        if owner is None or owner[0] != pointer.id:
            raise BadInput(
                f"source: {shown(url)} is not the ledger of {workdir}.", "Check its ledger.json."
            )
        rows = _copy(server, shown(url), file, str(path), Leases(*server, LeaseFence()).running)
        (workdir / POINTER).unlink()
    return LedgerCopy(url, str(path), rows)


def _folder(name: str) -> Path:
    folder = Path(name).expanduser().resolve()
    require_folder(folder)
    return folder


def _require_idle(runs: list[str]) -> None:
    if runs:
        raise BadInput(
            f"source: {runs[0]} has a running controller, which writes to it.",
            f"Stop it first: lefleet stop {runs[0]}",
        )


def _copy(
    source: Engines,
    name: str,
    destination: Engines,
    into: str,
    controlled: Callable[[], list[str]],
) -> dict[str, int]:
    """In one transaction, while nobody can write to the source, and no run of it is controlled;
    rows by table."""
    _require_idle(controlled())
    for engines, place in ((source, name), (destination, into)):
        found = revision(engines.reads)
        if found is not None and found > schema.REVISION:
            raise BadInput(f"{place} was written by a newer lefleet (schema {found}).")
        if found != schema.REVISION:
            upgrade(engines)
    with source.writes.begin() as there, destination.writes.begin() as here:
        _require_idle(controlled())
        is_empty = not any(here.execute(select(table).limit(1)).first() for table in _TABLES)
        if is_empty:
            for table in _TABLES:
                for rows in batched(_rows(there, table), _AT_ONCE):
                    names = table.columns.keys()
                    here.execute(
                        insert(table), [dict(zip(names, row, strict=True)) for row in rows]
                    )
                _set_next_id(here, table)
        counted = {table.name: _count_equal(there, here, table) for table in _TABLES}
        differing = [table for table, count in counted.items() if count is None]
        if differing and not is_empty:
            raise BadInput(
                f"destination: {into} is not empty.", "Name an empty database or another folder."
            )
        if differing:
            raise BadInput(
                f"{into} took other rows than {name} has, in {differing[0]}. Nothing was copied."
            )
    return {table: count or 0 for table, count in counted.items()}


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    found = connection.execute(
        select(table).order_by(*table.primary_key), execution_options={"yield_per": _AT_ONCE}
    )
    for row in found:
        yield tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    """Postgres has no NUL in texts."""
    return value.replace("\0", "�") if isinstance(value, str) else value


def _count_equal(one: Connection, other: Connection, table: Table) -> int | None:
    """How many rows both have; None where any of them differs."""
    count = 0
    for mine, theirs in zip_longest(_in_order(one, table), _in_order(other, table)):
        if mine != theirs:
            return None
        count += 1
    return count


def _in_order(connection: Connection, table: Table) -> Iterable[tuple[Any, ...]]:
    """Each database has its own order of letters."""
    if _has_number(table):
        return _rows(connection, table)
    keys = [table.columns.keys().index(column.name) for column in table.primary_key]
    return sorted(_rows(connection, table), key=lambda row: [row[key] for key in keys])


def _has_number(table: Table) -> bool:
    return [type(column.type) for column in table.primary_key] == [Integer]


def _set_next_id(connection: Connection, table: Table) -> None:
    """Postgres counts ids apart from rows."""
    if connection.dialect.name != "postgresql" or not _has_number(table):
        return
    last = connection.execute(select(func.max(table.c.id))).scalar()
    if last is not None:
        sequence = func.pg_get_serial_sequence(table.name, "id")
        connection.execute(select(func.setval(sequence, last)))
