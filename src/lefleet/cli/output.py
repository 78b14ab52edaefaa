"""What commands print: JSON for programs, log lines for operators, text of other machines made safe
for a terminal."""

import json
import logging
import sys
import threading
import time
from typing import Any, TextIO

import msgspec

from lefleet.server.rates import TokenBucket

_HEAD, _TAIL = 200, 100
"""What is logged of a long value: its beginning names the fault, its end the remedy."""
_LONGEST_MESSAGE = 1000
_LONGEST_TRACE = 8000
_LINES, _LINES_PER_S = 500, 5
"""Lines that one place in the code may write at once, and then in each second."""


def print_json(value: Any) -> None:
    """One result, indented."""
    _print(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_line(value: Any) -> None:
    """One of several results, each on its own line."""
    _print(msgspec.json.encode(value))


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()


def printable(text: str) -> str:
    """The text on one line; characters that would control the terminal become question marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def quoted(text: str) -> str:
    """The text as a JSON string, with every unprintable character escaped."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in escaped)


def _escape(letter: str) -> str:
    """A JSON escape also where JSON does not demand one: U+009B begins a terminal command."""
    code = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def log_to_stderr() -> None:
    """All events of lefleet, and warnings of other libraries: one key=value line each."""
    logging.basicConfig(handlers=[event_handler(sys.stderr)], level=logging.WARNING, force=True)
    for name in ("lefleet", "lefleet_client"):
        logging.getLogger(name).setLevel(logging.INFO)


def event_handler(stream: TextIO) -> logging.Handler:
    """Writes bounded key=value lines, whatever other machines sent and however often."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalFormatter() if stream.isatty() else KeyValueFormatter())
    handler.addFilter(LineRate())
    return handler


def warn_on_stderr() -> None:
    """For commands that answer a person: only warnings, which Python prints by default, but in the
    key=value form, because they may quote what other machines sent."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(KeyValueFormatter())


class LineRate(logging.Filter):
    """Counts lines instead of writing them where one place in the code logs without end: other
    machines can cause some events as often as they like. The next line says how many are missing.
    One lock guards the counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, int], TokenBucket] = {}
        self._unlogged: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), time.monotonic()
        with self._lock:
            bucket = self._buckets.setdefault(place, TokenBucket(_LINES, _LINES_PER_S, now_s))
            if not bucket.take(now_s):
                self._unlogged[place] = self._unlogged.get(place, 0) + 1
                return False
            record.unlogged = self._unlogged.pop(place, 0)
        return True


class KeyValueFormatter(logging.Formatter):
    """Our own events are key=value already; a message of another library becomes one value.

    Values may come from robots, so any value that could be read as more than one is quoted, and a
    long one is cut: a name of 16 KB must not fill a disk.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return (
            f"time={moment}.{record.msecs:03.0f}Z level={record.levelname.lower()} "
            f"logger={record.name} {self._event(record)}"
        )

    def _event(self, record: logging.LogRecord) -> str:
        message = _message(record)
        if record.exc_info:
            message += (
                f" trace={quoted(_cut(self.formatException(record.exc_info), _LONGEST_TRACE))}"
            )
        if unlogged := getattr(record, "unlogged", 0):
            message += f" unlogged={unlogged}"
        return message


class TerminalFormatter(KeyValueFormatter):
    """The same event for a person who looks on: the time of day, the level where it matters."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"{moment} {level}{self._event(record).removeprefix('event=')}"


class _Value(str):
    """A value as it is written after its key, for %s and %r alike."""

    __slots__ = ()

    def __new__(cls, value: object) -> "_Value":
        text = _cut(str(value))
        is_plain = text.isprintable() and not set(' "=\\') & set(text)
        return super().__new__(cls, text if text and is_plain else quoted(text))

    def __repr__(self) -> str:
        return str(self)


def _cut(text: str, longest: int = _HEAD + _TAIL) -> str:
    """At most about `longest` characters: the beginning, the end, and how many are left out."""
    if len(text) <= longest:
        return text
    head = text[: longest - _TAIL]
    return f"{head} ...({len(text) - longest} characters)... {text[-_TAIL:]}"


def _message(record: logging.LogRecord) -> str:
    pattern, values = str(record.msg), record.args
    if not pattern.startswith("event=") or not pattern.isprintable():
        return f"event=log message={quoted(_cut(record.getMessage(), _LONGEST_MESSAGE))}"
    if not isinstance(values, tuple) or not values:
        return pattern
    return pattern % tuple(
        value if isinstance(value, int | float) else _Value(value) for value in values
    )
