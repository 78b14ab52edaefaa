"""What became of each request, and the audit log that writes it down.

The audit log has one line of JSON for each request that was taken up:

time           when it ended, on this machine's clock: 2026-01-31T12:00:00.123Z
event          "request"
session_id, client_id, session_epoch, episode_id, seq_id, seed   which request it was
result         answered, failed or stale
reason         why it failed or is stale
queue_wait_ms, prepare_ms, inference_ms, batch_size   where its time went
superseded     requests of this robot that newer ones overwrote since its last answer
"""

import io
import logging
import os
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from lefleet.errors import BadInput

_LOG = logging.getLogger(__name__)
_CLOSE_S = 2.0
_AUDIT_ROOM = 4096
_LINE_BEGINS = b'{"time":"'
_LONGEST_LINE = 1 << 20
"""A torn line is looked for in so many bytes at the end of an audit file."""

RequestResult = Literal["answered", "failed", "stale"]
"""answered: a chunk was sent. failed: the robot was sent the reason. stale: a new episode or
session began meanwhile, so no robot waits for it."""


@dataclass(frozen=True)
class RequestOutcome:
    """One request that was taken up, from its arrival to its end."""

    session_id: str
    client_id: str
    session_epoch: int
    episode_id: int
    seq_id: int
    seed: int
    result: RequestResult
    reason: str
    """Why it failed or is stale; empty when it was answered."""
    queue_wait_ms: float
    """From its arrival, without the time that was spent on it."""
    prepare_ms: float
    inference_ms: float
    batch_size: int
    superseded: int
    """Requests of this robot that were overwritten since its last answer."""


class Observer(Protocol):
    """Gets every outcome on the thread that worked on it: it returns at once and never raises."""

    def finished(self, outcome: RequestOutcome) -> None: ...


class EventCounts:
    """Counts by name that several threads add to; one lock guards them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()

    def add(self, name: str) -> int:
        """Count one more; how many there are now."""
        with self._lock:
            self._counts[name] += 1
            return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class BackgroundWriter[T]:
    """Hands items to `write` on one thread, in order; `offer` returns at once, whatever that does.

    Any thread may offer. What `write` raises is logged, the first time only, and counted. The
    thread is a daemon: one that hangs in a full pipe does not keep the process alive.
    """

    def __init__(self, name: str, write: Callable[[T], None], room: int) -> None:
        self._write = write
        self._items: queue.Queue[T | None] = queue.Queue(room)
        self._counts = EventCounts()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def skipped(self) -> int:
        """Items that were lost: there was no room for them, or writing them failed."""
        return sum(self._counts.snapshot().values())

    def offer(self, item: T) -> None:
        if self._is_closed:
            self._counts.add("closed")
            return
        try:
            self._items.put_nowait(item)
        except queue.Full:
            self._counts.add("full")

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Finish what was offered, within the time; whether it was finished."""
        self._is_closed = True
        try:
            self._items.put(None, timeout=timeout_s)
        except queue.Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            try:
                self._write(item)
            except Exception as error:  # noqa: BLE001 - later items may be fine again
                if self._counts.add("failed") == 1:
                    name = self._thread.name
                    _LOG.warning("%s: %s (further failures are only counted)", name, error)


class AuditLog:
    """Writes outcomes to a stream on the thread `audit`; a reader that is stuck loses lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.json.Encoder()
        self._lines = BackgroundWriter("audit", self._write, _AUDIT_ROOM)

    @property
    def skipped(self) -> int:
        """Lines that could not be written."""
        return self._lines.skipped

    def finished(self, outcome: RequestOutcome) -> None:
        self._lines.offer((datetime.now(UTC), outcome))

    def close(self) -> None:
        is_done = self._lines.close()
        if is_done and self._stream is not sys.stdout.buffer:
            with suppress(OSError):  # Of a full disk; the next start cuts off what is torn.
                self._stream.close()

    def _write(self, ended: tuple[datetime, RequestOutcome]) -> None:
        ended_at, outcome = ended
        time = ended_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "event": "request", **asdict(outcome)}
        self._stream.write(self._encoder.encode(line) + b"\n")
        self._stream.flush()


class LineFile(io.FileIO):
    """Appends whole lines to a file: on a disk that fills up, what is missing of one comes first.

    Its one writer is the thread `audit`.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            _cut_torn_line(path)
        super().__init__(path, "ab")
        self._rest = b""

    def write(self, line: Any) -> int:
        self._finish()
        self._rest = bytes(line)
        try:
            self._finish()
        except OSError:
            if len(self._rest) == len(line):  # Nothing of it is in the file, so nothing is torn.
                self._rest = b""
            raise
        return len(line)

    def _finish(self) -> None:
        while self._rest:
            self._rest = self._rest[super().write(self._rest) :]


def _cut_torn_line(path: Path) -> None:
    """Cut off an unfinished last line, if it is one of ours; otherwise end it."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_LINE))
        torn = file.read().rpartition(b"\n")[2]
        if torn.startswith(_LINE_BEGINS) or (torn and _LINE_BEGINS.startswith(torn)):
            file.truncate(size - len(torn))
            _LOG.warning("event=audit_line_cut path=%s bytes=%d", path, len(torn))
        elif torn:
            file.write(b"\n")


def open_audit(where: str) -> AuditLog | None:
    """The log that a manifest names: stdout, none, or a file, which is added to; for auto, stdout
    unless a person looks at it."""
    if where == "none" or (where == "auto" and sys.stdout.isatty()):
        return None
    if where in ("auto", "stdout"):
        return AuditLog(sys.stdout.buffer)
    path = Path(where).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return AuditLog(LineFile(path))
    except OSError as error:
        raise BadInput(f"audit: {path} cannot be written: {error.strerror}.") from error
