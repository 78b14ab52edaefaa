"""What commands print: JSON for programs, log lines for operators, text of other machines made safe
for a terminal."""

import json
import logging
import sys
import time
from typing import Any

import msgspec


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
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("lefleet", "lefleet_client"):
        logging.getLogger(name).setLevel(logging.INFO)


def warn_on_stderr() -> None:
    """For commands that answer a person: only warnings, which Python prints by default, but in the
    key=value form, because they may quote what other machines sent."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(KeyValueFormatter())


class KeyValueFormatter(logging.Formatter):
    """Our own events are key=value already; a message of another library becomes one value.

    Values may come from robots, so any value that could be read as more than one is quoted.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = _message(record)
        if record.exc_info:
            message += f" trace={quoted(self.formatException(record.exc_info))}"
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return (
            f"time={moment}.{record.msecs:03.0f}Z level={record.levelname.lower()} "
            f"logger={record.name} {message}"
        )


class _Value(str):
    """A value as it is written after its key, for %s and %r alike."""

    __slots__ = ()

    def __new__(cls, value: object) -> "_Value":
        text = str(value)
        is_plain = text.isprintable() and not set(' "=\\') & set(text)
        return super().__new__(cls, text if text and is_plain else quoted(text))

    def __repr__(self) -> str:
        return str(self)


def _message(record: logging.LogRecord) -> str:
    pattern, values = str(record.msg), record.args
    if not pattern.startswith("event=") or not pattern.isprintable():
        return f"event=log message={quoted(record.getMessage())}"
    if not isinstance(values, tuple) or not values:
        return pattern
    return pattern % tuple(
        value if isinstance(value, int | float) else _Value(value) for value in values
    )
