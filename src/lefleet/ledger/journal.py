"""events.jsonl of a run: a copy of the event table that `tail -f` and other programs can read."""

from pathlib import Path
from typing import Any, Self

import msgspec

from lefleet.ledger.store import EventRow, Ledger

FILE = "events.jsonl"


class EventJournal:
    """Appends events by id. The table is the truth: what a crash left out or cut short here is
    repaired from it at the next opening."""

    def __init__(self, ledger: Ledger, run: str, folder: Path) -> None:
        self._ledger = ledger
        self._run = run
        path = folder / FILE
        intact, self._last = _intact(path.read_bytes() if path.exists() else b"")
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(intact)
        self._file.seek(intact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write_new(self) -> None:
        """Append what has happened since the last call."""
        while events := self._ledger.events(self._run, after=self._last):
            for event in events:
                self._file.write(msgspec.json.encode(_line(event)) + b"\n")
            self._file.flush()
            self._last = events[-1].id


def _line(event: EventRow) -> dict[str, Any]:
    return {"id": event.id, "at": round(event.at, 3), "kind": event.kind, **event.data}


def _intact(data: bytes) -> tuple[int, int]:
    """Length of the complete lines with rising ids at the beginning of `data`, and the last id."""
    length = last = 0
    for line in data.split(b"\n")[:-1]:
        try:
            number = int(msgspec.json.decode(line)["id"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            break
        if number <= last:
            break
        length, last = length + len(line) + 1, number
    return length, last
