"""Logs for operators: one event per line on stderr, as key=value."""

import logging
import sys
import time

from lefleet.cli.printable import quoted

_QUIET = logging.WARNING


class _KeyValue(logging.Formatter):
    """Our own events are key=value already; what others write becomes one value.

    Values may come from robots, so one that could be taken for more than a value is quoted.
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
    """A text as it stands behind its key, whether it was asked for with %s or %r."""

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


def log_to_stderr() -> None:
    """Everything of lefleet, and what is serious of others."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_KeyValue())
    logging.basicConfig(handlers=[handler], level=_QUIET, force=True)
    for name in ("lefleet", "lefleet_client"):
        logging.getLogger(name).setLevel(logging.INFO)


def warn_on_stderr() -> None:
    """For commands that answer a person: only warnings, which Python writes in any case, but with
    what others sent made harmless."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_KeyValue())
