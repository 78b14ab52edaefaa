"""The audit log: one line of JSON for each request that was taken up.

time           when it ended, on this machine's clock: 2026-01-31T12:00:00.123Z
event          "request"
session_id, client_id, session_epoch, episode_id, seq_id, seed   which request it was
result         answered, failed or stale
reason         why it failed or is stale
queue_wait_ms, prepare_ms, inference_ms, batch_size   where its time went
superseded     requests of this robot that newer ones overwrote since its last answer
"""

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.server.background import Background
from lefleet.server.outcome import Outcome

_ROOM = 4096


class _Ended(NamedTuple):
    time: datetime
    outcome: Outcome


class AuditLog:
    """Writes outcomes to a stream on the thread `audit`; a reader that is stuck loses lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.json.Encoder()
        self._lines = Background("audit", self._write, _ROOM)

    @property
    def skipped(self) -> int:
        """Lines that could not be written."""
        return self._lines.skipped

    def finished(self, outcome: Outcome) -> None:
        self._lines.offer(_Ended(datetime.now(UTC), outcome))

    def close(self) -> None:
        is_done = self._lines.close()
        if is_done and self._stream is not sys.stdout.buffer:
            self._stream.close()

    def _write(self, ended: _Ended) -> None:
        time = ended.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "event": "request", **asdict(ended.outcome)}
        self._stream.write(self._encoder.encode(line) + b"\n")
        self._stream.flush()


def open_audit(where: str) -> AuditLog | None:
    """The log that a manifest names: stdout, none, or a file, which is added to."""
    if where == "none":
        return None
    if where == "stdout":
        return AuditLog(sys.stdout.buffer)
    path = Path(where).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return AuditLog(path.open("ab"))
    except OSError as error:
        raise BadInput(f"audit: {path} cannot be written: {error.strerror}.") from error
