"""events.jsonl of a run: a copy of the event table that `tail -f` and other programs can read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from lefleet.ledger.rows import EventRow
from lefleet.ledger.store import Ledger

FILE = "events.jsonl"


class EventJournal:
    """Appends events by id. The table is the truth: what a crash or a hand left out, cut short or
    changed here is repaired from it at the next opening."""

    def __init__(self, ledger: Ledger, run: str, folder: Path) -> None:
        self._ledger = ledger
        self._run = run
        path = folder / FILE
        data = path.read_bytes() if path.exists() else b""
        intact, self._last = _intact(data, self._events(after=0))
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(intact)
        self._file.seek(intact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write_new(self) -> None:
        """Append what has happened since the last call."""
        for event in self._events(after=self._last):
            self._file.write(_line(event))
            self._last = event.id
        self._file.flush()

    def _events(self, after: int) -> Iterator[EventRow]:
        while events := self._ledger.events(self._run, after=after):
            yield from events
            after = events[-1].id


def _line(event: EventRow) -> bytes:
    values = {"id": event.id, "at": round(event.at, 3), "kind": event.kind, **event.data}
    return msgspec.json.encode(values) + b"\n"


def _intact(data: bytes, events: Iterable[EventRow]) -> tuple[int, int]:
    """Length of the beginning of `data` that tells of `events`, and the last id in it."""
    length = last = 0
    for event in events:
        line = _line(event)
        if not data.startswith(line, length):
            break
        length, last = length + len(line), event.id
    return length, last
