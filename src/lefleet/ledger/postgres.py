"""A ledger on a Postgres server, for work folders that several machines share.

Writers take turns, as with a file: each transaction that writes first takes a lock that all of the
ledger's writers take, and keeps it until it has committed. So ids of events grow in the order in
which they become visible, which readers that follow events by id rely on.

A connection is checked before each use and made anew where the server was restarted. What is lost
in the middle of a transaction is not repeated here: whether it was committed is then unknown.
"""

import random
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import create_engine, event, make_url

from lefleet.errors import BadInput, LedgerUnavailable, LeFleetError
from lefleet.ledger import engines
from lefleet.ledger.address import require_driver, shown
from lefleet.ledger.engines import READS, Engines
from lefleet.ledger.lease import LeaseFence

PATIENCE_S = 15.0
"""How long a process that was connected once waits for the server to come back."""
_LOCK = "SELECT pg_advisory_xact_lock(1819045734, hashtext(current_schema()))"
"""Of all writers of a ledger: the first number means one, the second its schema."""
_IDLE_S = 20
"""A process that is suspended in the middle of a transaction blocks all other writers; after this,
the server rolls it back."""
_PARAMETERS = {
    "application_name": "lefleet",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "40000",
}
"""For libpq, where the URL does not say otherwise: a server whose machine died is noticed."""
_HOPELESS = {
    r"password": "Check the user's password: in ~/.pgpass, or in PGPASSWORD.",
    r'role ".*" (does not exist|is not)': "Create that user, or name another one in the URL.",
    r"pg_hba": "Allow this user and machine in the server's pg_hba.conf.",
    r'database ".*" does not exist': "Create it: createdb.",
    r"resolve|translate": "Check the name of the host.",
}
"""What waiting does not help against, by what libpq says of it; and what does help."""


def writing(url: str, fence: LeaseFence, patience_s: float = 0.0) -> Engines:
    """Every write stands on the fence. A first connection waits for the server this long."""
    return _engines(url, fence, patience_s, may_write=True)


@cache
def reading(url: str) -> Engines:
    """One for a process, from any thread: it keeps a few connections open."""
    return _engines(url, LeaseFence(), 0.0, may_write=False)


def _engines(url: str, fence: LeaseFence, patience_s: float, *, may_write: bool) -> Engines:
    require_driver()
    link = _Link(url, patience_s)
    engine = create_engine(
        url, pool_pre_ping=True, pool_size=2, max_overflow=10, connect_args=_arguments(url)
    )
    only_reads = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    writes = engine if may_write else engine.execution_options(postgresql_readonly=True)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _: Any, arguments: Any, parameters: Any) -> Any:
        return link.connect(lambda: dialect.connect(*arguments, **parameters))

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        if not connection.get_execution_options().get(READS, False):
            connection.exec_driver_sql(_LOCK)
            fence.check(connection)

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def clean(_: Any, __: Any, statement: Any, values: Any, ___: Any, ____: Any) -> Any:
        return statement, _without_nul(values)

    @event.listens_for(engine, "handle_error")
    def explain(context: Any) -> None:
        # A check that fails leads to a new connection.
        if not context.is_pre_ping and (error := _explained(context, url)) is not None:
            raise error from context.original_exception

    return Engines(writes, engine.execution_options(**{READS: True}, **only_reads))


def _arguments(url: str) -> dict[str, str]:
    query = make_url(url).query
    settings = {
        "lock_timeout": f"{engines.LOCK_WAIT_S:g}s",
        "idle_in_transaction_session_timeout": f"{_IDLE_S}s",
        # Without it, the server notices that a process was killed only after its statement.
        "client_connection_check_interval": "500ms",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given = query.get("options", "")
    own = given if isinstance(given, str) else " ".join(given)
    return {name: value for name, value in _PARAMETERS.items() if name not in query} | {
        "options": f"{own} {options}".strip()
    }


class _Link:
    """Connects, and waits for a server that was there before or that has to be."""

    def __init__(self, url: str, patience_s: float) -> None:
        self._url = url
        self._patience_s = patience_s
        self._was_there = False

    def connect(self, connect: Callable[[], Any]) -> Any:
        from psycopg import OperationalError

        deadline, wait_s = time.monotonic() + self._patience_s, 0.1
        while True:
            try:
                connection = connect()
            except OperationalError as error:
                said = _first_line(error)
                # A server that was there before is being restarted; its name may be gone meanwhile.
                if not self._was_there and (remedy := _remedy(said)) is not None:
                    raise BadInput(
                        f"ledger: {shown(self._url)} refuses the connection: {said}.", remedy
                    ) from error
                if time.monotonic() + wait_s > deadline:
                    raise LedgerUnavailable(
                        f"The ledger at {shown(self._url)} cannot be reached: {said}.",
                        "Start the server, or check host and port in the URL.",
                    ) from error
                time.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, 2.0)
            else:
                self._was_there = True
                self._patience_s = max(self._patience_s, PATIENCE_S)
                return connection


def _first_line(error: Exception) -> str:
    """What libpq says, without the address, which our message has."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0].rpartition("failed: ")[2] if lines else type(error).__name__
    return said.removeprefix("FATAL:").strip().removesuffix(".")


def _remedy(said: str) -> str | None:
    """None where waiting may help."""
    return next((does for about, does in _HOPELESS.items() if re.search(about, said)), None)


def _explained(context: Any, url: str) -> LeFleetError | None:
    from psycopg import Error, errors

    error = context.original_exception
    if not isinstance(error, Error):
        return None
    said = _first_line(error)
    connection = context.connection and context.connection.connection.dbapi_connection
    if context.is_disconnect or (connection is not None and connection.closed):
        return LedgerUnavailable(
            f"The ledger at {shown(url)} went away: {said}.", "Start the server again."
        )
    match error:
        case errors.LockNotAvailable():
            return engines.locked(f"at {shown(url)}", "see pg_stat_activity for who holds it.")
        case errors.ReadOnlySqlTransaction():
            return LeFleetError(f"The ledger at {shown(url)} was opened readonly: {said}.")
        case errors.InvalidSchemaName() | errors.UndefinedObject():
            return BadInput(
                f"ledger: {shown(url)} has no schema to work in: {said}.",
                "Create the schema that search_path names in the URL.",
            )
        case errors.InsufficientPrivilege():
            return BadInput(
                f"ledger: the user of {shown(url)} may not do that: {said}.",
                "Grant it all rights on its schema.",
            )
        case errors.DiskFull() | errors.OutOfMemory() | errors.TooManyConnections():
            return LedgerUnavailable(f"The ledger at {shown(url)} cannot be used: {said}.")
    return None


def _without_nul(values: Any) -> Any:
    """Postgres stores no NUL in a text, and a program's last words may have one."""
    match values:
        case str():
            return values.replace("\0", "�") if "\0" in values else values
        case dict():
            return {name: _without_nul(value) for name, value in values.items()}
        case list() | tuple():
            return type(values)(_without_nul(value) for value in values)
    return values
