"""What pages and API know of the process that they run in."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lefleet.actions.people import NotPermitted, Person
from lefleet.errors import Conflict
from lefleet.ledger import Ledger, read_ledger
from lefleet.ledger.address import ledger_mark
from lefleet.queries.fleet_watch import FleetWatch
from lefleet.queries.runs import RunReader
from lefleet_client.transport import Transport

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_ACTION_WAIT_S = 15.0
"""How long an action waits for the one before it."""
_CHECK_S = 2.0
"""How long a ledger is used before its schema is checked again."""


@dataclass(frozen=True)
class Context:
    """One for each process; any thread may use it.

    `actions` is held while a person changes something: the rules of a run are installed per
    process, so there is one action at a time. A lock of its own guards the ledger.
    """

    workdir: Path
    connect: Callable[[], Transport]
    """Opens a node that reaches servers and robots. Raises what `lefleet fleet` reports."""
    datasets: tuple[Path, ...] = ()
    """Folders with recorded datasets in them."""
    configs: Path | None = None
    """Folder with configs that runs can be started from."""
    reads_robots: bool = True
    """Whether an access list lets this node read what robots report of themselves."""
    actions: threading.Lock = field(default_factory=threading.Lock)
    reader: RunReader = field(init=False, repr=False)
    """Remembers the runs that pages and API have asked for."""
    fleet: FleetWatch = field(init=False, repr=False)
    """To be closed at the end."""
    _ledger: "_OpenLedger" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        watch = FleetWatch(self.connect, reads_robots=self.reads_robots)
        object.__setattr__(self, "_ledger", _OpenLedger(self.workdir))
        object.__setattr__(self, "reader", RunReader(self.ledger, self.workdir))
        object.__setattr__(self, "fleet", watch)

    def ledger(self) -> Ledger:
        """To read. Ask for it at each use: where there was none, there may be one by now. Raises
        `BadInput` where this version cannot read it."""
        return self._ledger.current()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """One action at a time. Raises `Conflict` where another one takes long."""
        if not self.actions.acquire(timeout=_ACTION_WAIT_S):
            raise Conflict("Another action is still being carried out.", "Try again in a moment.")
        try:
            yield
        finally:
            self.actions.release()

    def person(self, request: "HTTPConnection") -> Person:
        """Who made a request, or opened a page: of a page, ask before each action. Raises
        `NotPermitted` where that person was logged out since."""
        if not request.scope["lefleet.is_valid"]():
            raise NotPermitted("You are no longer logged in.", "Load the page again.")
        person: Person = request.scope["lefleet.person"]
        return person


class _OpenLedger:
    """Opened again when the work folder gets one or another one, and every few seconds."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._lock = threading.Lock()
        self._opened: tuple[Ledger, tuple[int, ...], float] | None = None

    def current(self) -> Ledger:
        with self._lock:
            mark, now_s = ledger_mark(self._workdir), time.monotonic()
            if self._opened is not None:
                ledger, opened_mark, until_s = self._opened
                if mark == opened_mark and now_s < until_s:
                    return ledger
            ledger = read_ledger(self._workdir)
            self._opened = (ledger, mark, now_s + _CHECK_S)
            return ledger
