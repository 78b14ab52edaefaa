"""Where the ledger of a work folder is: a file in it, or a server that ledger.json names."""

import os
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lefleet.errors import MISSING, BadInput, why_not_a_folder
from lefleet.records import decode, encode
from lefleet.records.border import Strict

FILE = "ledger.db"
POINTER = "ledger.json"
"""Names the server, for every command that is given the work folder."""
_DRIVERS = ("postgresql+psycopg", "postgresql", "postgres")


class LedgerPointer(Strict, frozen=True, kw_only=True):
    """The content of ledger.json."""

    url: str
    """Without a password."""
    id: str
    """Of the work folder; the server has the same one."""


def parse_url(text: str, field: str = "ledger") -> str:
    """A URL of Postgres as it is stored; BadInput where it is none, or has a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise _no_url(field) from error
    if url.drivername not in _DRIVERS or not url.database:
        raise _no_url(field)
    if url.password is not None or "password" in url.query:
        raise BadInput(
            f"{field}: a password in the URL would be stored in files of the work folder.",
            "Leave it out, and put it into ~/.pgpass or into PGPASSWORD.",
        )
    return str(url.set(drivername=_DRIVERS[0]))


def require_driver() -> None:
    if find_spec("psycopg") is None:
        raise BadInput(
            "ledger: a ledger on Postgres needs psycopg, which is not installed.",
            "Install it: pip install 'lefleet[postgres]'",
        )


def shown(url: str) -> str:
    """For messages."""
    parsed: URL = make_url(url)
    return str(parsed.set(drivername="postgresql"))


def require_folder(workdir: Path) -> None:
    """A missing one is none that cannot be used."""
    if (problem := why_not_a_folder(workdir)) not in ("", MISSING):
        raise BadInput(f"workdir: {workdir} {problem}.", "Name another --workdir.")


def has_ledger(workdir: Path) -> bool:
    return any((workdir / name).exists() for name in (POINTER, FILE))


def ledger_mark(workdir: Path) -> tuple[int, ...]:
    """Changes when the work folder gets a ledger, or another one."""
    marks: list[int] = []
    for name in (POINTER, FILE):
        try:
            found = (workdir / name).stat()
        except OSError:
            marks += [0, 0]
        else:
            marks += [found.st_dev, found.st_ino]
    return tuple(marks)


def read_pointer(workdir: Path) -> LedgerPointer | None:
    """None where the ledger is a file, or there is none yet."""
    require_folder(workdir)
    file = workdir / POINTER
    try:
        pointer: LedgerPointer = decode(file.read_bytes(), LedgerPointer, str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(
            f"workdir: {file} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    parse_url(pointer.url, f"{file}: url")
    return pointer


def write_pointer(workdir: Path, pointer: LedgerPointer) -> None:
    """Under its name there is either nothing or all of it, also after a stop of the machine."""
    partial = workdir / f"{POINTER}.partial"
    with partial.open("wb") as file:
        file.write(encode(pointer))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(workdir / POINTER)


def _no_url(field: str) -> BadInput:
    return BadInput(
        f"{field}: it names no Postgres database.",
        "Write it as postgresql+psycopg://USER@HOST/DATABASE, or leave it out: then the ledger is "
        "a file in the work folder.",
    )
