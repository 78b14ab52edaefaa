"""Logs: one event, one line, keys and values."""

import logging

import pytest

from lefleet.cli.logs import _KeyValue


def line(message: str, *values: object, error: BaseException | None = None) -> str:
    trace = (type(error), error, None) if error else None
    record = logging.LogRecord("lefleet.x", logging.INFO, "", 0, message, values, trace)
    record.created, record.msecs = 0.25, 250.0
    return _KeyValue().format(record)


def test_an_event_stays_as_it_is():
    assert line("event=ready server=%s", "a") == (
        "time=1970-01-01T00:00:00.250Z level=info logger=lefleet.x event=ready server=a"
    )


@pytest.mark.parametrize("message", ['who "knows"', "event=a\nevent=b"])
def test_anything_else_becomes_one_value_on_one_line(message):
    written = line(message)
    assert " event=log message=" in written
    assert "\n" not in written


def test_a_stack_trace_stays_on_its_line():
    written = line("event=failed", error=ValueError("no\nway"))
    assert 'event=failed trace="ValueError: no\\nway"' in written
