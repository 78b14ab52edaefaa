"""Open a ledger: to write, creating or migrating it where that is allowed, or only to read."""

import fcntl
import socket
import uuid
from pathlib import Path

from sqlalchemy import Column, Engine, String, Table, insert, select

from lefleet.errors import BadInput
from lefleet.ledger import postgres, schema, sqlite
from lefleet.ledger.address import (
    FILE,
    POINTER,
    LedgerPointer,
    has_ledger,
    parse_url,
    read_pointer,
    require_folder,
    shown,
    write_pointer,
)
from lefleet.ledger.control import LOCK as CONTROLLER_LOCK
from lefleet.ledger.control import FileLocks
from lefleet.ledger.engines import Engines, revision
from lefleet.ledger.file_system import require_local
from lefleet.ledger.lease import LeaseFence, Leases
from lefleet.ledger.store import Ledger
from lefleet.process import is_held

work_folder = Table(
    "work_folder",
    schema.metadata,
    Column("id", String, primary_key=True),
    Column("path", String, nullable=False),
    Column("host", String, nullable=False),
)
"""On a server: the one that the ledger belongs to."""
_MIGRATIONS = Path(__file__).parent / "migrations"


def open_ledger(
    workdir: Path,
    url: str = "",
    *,
    create: bool = True,
    migrate: bool = True,
    patience_s: float = 0.0,
) -> Ledger:
    """The ledger of `workdir`, to read and write; `url` names the server that it is on, where the
    work folder has no ledger yet, and is refused where it has another one.

    `create` makes one where there is none. `migrate` brings an older one up to date, unless a
    controller is using it. One process at a time does either. A process killed in between leaves
    nothing half made, because a migration is one transaction. `patience_s` is how long to wait for
    a server that does not answer.
    """
    require_folder(workdir)
    if not create and not has_ledger(workdir):
        raise BadInput(
            f"workdir: there is no ledger in {workdir}.",
            "Name the --workdir that the run was begun with.",
        )
    pointer = _pointer(workdir, url)
    try:
        if pointer is None and (ledger := _open_file(workdir, migrate=migrate)) is not None:
            return ledger
        # It may have been moved to a server while this process waited for its turn.
        if (pointer := pointer or read_pointer(workdir)) is None:
            raise BadInput(f"workdir: {workdir / POINTER} was removed.", "Try again.")
        return _open_server(workdir, pointer, migrate=migrate, patience_s=patience_s)
    except OSError as error:
        raise sqlite.unusable(workdir, str(error.strerror)) from error


def read_ledger(workdir: Path) -> Ledger:
    """The ledger of `workdir`, only to read; writes no file. A missing one has no runs."""
    pointer = read_pointer(workdir)
    path = workdir / FILE
    if pointer is not None:
        engines, place = postgres.reading(pointer.url), shown(pointer.url)
    else:
        engines, place = sqlite.reading(path), str(path)
    found = revision(engines.reads) if pointer is not None or path.exists() else None
    if found is None:
        return Ledger(*sqlite.empty(), FileLocks(workdir))
    if found != schema.REVISION:
        raise _other_schema(place, found)
    if pointer is None:
        return Ledger(*engines, FileLocks(workdir))
    _require_same_folder(engines.reads, pointer, workdir)
    return Ledger(*engines, Leases(*engines, LeaseFence()))


def require_ledger(workdir: Path, url: str) -> str:
    """In words, the ledger that a run in `workdir` would have; BadInput or LedgerUnavailable where
    it could have none. Creates nothing."""
    pointer = _pointer(workdir, url)
    if pointer is None:
        require_local(workdir)
        return str(workdir / FILE)
    reads = postgres.reading(pointer.url).reads
    found = revision(reads)
    if found is not None and found > schema.REVISION:
        raise _other_schema(shown(pointer.url), found)
    if found is not None:
        _require_same_folder(reads, pointer, workdir)
    return shown(pointer.url)


def _pointer(workdir: Path, url: str) -> LedgerPointer | None:
    """Where the ledger is, or is to be; None for a file."""
    pointer = read_pointer(workdir)
    if not url:
        return pointer
    named = parse_url(url)
    if pointer is None and not (workdir / FILE).exists():
        return LedgerPointer(url=named, id=uuid.uuid4().hex)
    if pointer is None or pointer.url != named:
        place = str(workdir / FILE) if pointer is None else shown(pointer.url)
        raise BadInput(
            f"ledger: the ledger of {workdir} is {place}, not {shown(named)}.",
            f"Leave ledger out, name another --workdir, or move it: "
            f"{_move(workdir, pointer, named)}",
        )
    return pointer


def _move(workdir: Path, pointer: LedgerPointer | None, named: str) -> str:
    """The command that makes the other ledger this work folder's."""
    copy = f"lefleet ledger copy {workdir} '{named}'"
    if pointer is None:
        return copy
    return f"lefleet ledger copy '{pointer.url}' {workdir}, then {copy}"


def _open_file(workdir: Path, *, migrate: bool) -> Ledger | None:
    """None where the ledger is on a server."""
    require_local(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    with (workdir / sqlite.LOCK).open("w") as lock:
        sqlite.wait_for_lock(lock, workdir, fcntl.LOCK_EX)
        if (workdir / POINTER).exists():
            return None
        engines = sqlite.writing(workdir / FILE)
        found = revision(engines.reads)
        if found != schema.REVISION:
            users = controlled_runs(workdir) if found is not None else []
            _require_migratable(str(workdir / FILE), found, users, migrate=migrate)
            upgrade(engines)
    return Ledger(*engines, FileLocks(workdir))


def controlled_runs(workdir: Path) -> list[str]:
    """Runs whose controllers hold locks in the work folder."""
    locks = sorted(workdir.glob(f"*/{CONTROLLER_LOCK}"))
    return [lock.parent.name for lock in locks if is_held(lock)]


def _open_server(
    workdir: Path, pointer: LedgerPointer, *, migrate: bool, patience_s: float
) -> Ledger:
    fence = LeaseFence()
    engines = postgres.writing(pointer.url, fence, patience_s)
    leases = Leases(*engines, fence)
    found = revision(engines.reads)
    if found is not None:
        _require_same_folder(engines.reads, pointer, workdir)
    if found != schema.REVISION:
        users = leases.running() if found is not None else []
        _require_migratable(shown(pointer.url), found, users, migrate=migrate)
        upgrade(engines)
    claim(engines, read_pointer(workdir) or _claimed(workdir, pointer), workdir)
    return Ledger(*engines, leases)


def _claimed(workdir: Path, pointer: LedgerPointer) -> LedgerPointer:
    """Say in the work folder where its ledger is. Before the server knows the folder: a kill in
    between leaves a folder whose ledger is claimed when it is opened next."""
    workdir.mkdir(parents=True, exist_ok=True)
    with (workdir / sqlite.LOCK).open("w") as lock:
        sqlite.wait_for_lock(lock, workdir, fcntl.LOCK_EX)
        if (there := read_pointer(workdir)) is not None:
            return there
        write_pointer(workdir, pointer)
    return pointer


def claim(engines: Engines, pointer: LedgerPointer, workdir: Path) -> None:
    """Make the ledger that of a work folder, unless it is already; BadInput where it is that of
    another one."""
    if owner_of(engines.reads) is None:
        with engines.writes.begin() as connection:
            if connection.execute(select(work_folder)).first() is None:
                values = {"id": pointer.id, "path": str(workdir), "host": socket.gethostname()}
                connection.execute(insert(work_folder).values(values))
    _require_same_folder(engines.reads, pointer, workdir)


def owner_of(reads: Engine) -> tuple[str, str] | None:
    """Id of the work folder that a ledger belongs to, and where it was when it got it."""
    with reads.connect() as connection:
        row = connection.execute(select(work_folder)).first()
    return (row.id, f"{row.path} on {row.host}") if row is not None else None


def _require_same_folder(reads: Engine, pointer: LedgerPointer, workdir: Path) -> None:
    # The file after the server: another process may be making both, the file first.
    owner, there = owner_of(reads), read_pointer(workdir) or pointer
    if owner is not None and owner[0] != there.id:
        raise BadInput(
            f"ledger: {shown(pointer.url)} is the ledger of another work folder ({owner[1]}).",
            "Name another database, or another schema of it: "
            "?options=-csearch_path%3DNAME at the end of the URL.",
        )


def _require_migratable(place: str, found: str | None, users: list[str], *, migrate: bool) -> None:
    if found is not None and (found > schema.REVISION or not migrate):
        raise _other_schema(place, found)
    if users:
        raise BadInput(
            f"{place} was written by an older lefleet (schema {found}), and the controller of "
            f"{users[0]} is using it.",
            f"Stop that run with the older lefleet first: lefleet stop {users[0]}",
        )


def _other_schema(place: str, found: str) -> BadInput:
    if found > schema.REVISION:
        return BadInput(
            f"{place} was written by a newer lefleet (schema {found}).",
            "Use that lefleet, or name another workdir.",
        )
    return BadInput(
        f"{place} was written by an older lefleet (schema {found}).",
        "lefleet run and lefleet resume bring it up to date.",
    )


def upgrade(engines: Engines) -> None:
    """To the newest schema, in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    with engines.writes.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
