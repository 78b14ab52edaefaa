"""An append-only file of JSON lines that survives being cut off anywhere."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import msgspec

from lefleet.records import decode


class Journal:
    """Lines of one struct type; what was appended is on disk when `append` returns.

    A last line that a crash cut short is dropped at the next opening; any other line that cannot
    be read is an error, and nothing is changed.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.lines: list[Any] = []
        intact = 0
        if path.exists():
            *complete, _ = path.read_bytes().split(b"\n")
            for number, line in enumerate(complete, 1):
                self.lines.append(decode(line, kind, f"{path}, line {number}"))
                intact += len(line) + 1
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(intact)
        self._file.seek(intact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, line: Any) -> None:
        self.extend((line,))

    def extend(self, lines: Iterable[Any]) -> None:
        """Append several in one write."""
        added = list(lines)
        self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in added))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines += added
