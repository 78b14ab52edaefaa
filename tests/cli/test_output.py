"""Logs: one event, one line, keys and values."""

import json
import logging
import re

import pytest

from lefleet.cli.output import KeyValueFormatter


def line(message: str, *values: object, error: BaseException | None = None) -> str:
    trace = (type(error), error, None) if error else None
    record = logging.LogRecord("lefleet.x", logging.INFO, "", 0, message, values, trace)
    record.created, record.msecs = 0.25, 250.0
    return KeyValueFormatter().format(record)


def test_an_event_stays_as_it_is():
    assert line("event=ready server=%s", "a") == (
        "time=1970-01-01T00:00:00.250Z level=info logger=lefleet.x event=ready server=a"
    )


@pytest.mark.parametrize("message", ['who "knows"', "event=a\nevent=b"])
def test_anything_else_becomes_one_value_on_one_line(message):
    written = line(message)
    assert " event=log message=" in written
    assert "\n" not in written


NASTY = "arm\x1b[2J \x9b31m\u202e\nlevel=error event=drained \U000e0001"


@pytest.mark.parametrize("pattern", ["event=opened client=%s n=%d", "event=opened client=%r n=%d"])
def test_what_a_robot_calls_itself_is_one_value_whatever_is_in_it(pattern):
    written = line(pattern, NASTY, 3)
    assert written.isprintable()
    head, value, number = re.fullmatch(r"(.*) client=(\".*\") n=(\d)", written).groups()
    assert head.endswith(" event=opened")
    assert (json.loads(value), number) == (NASTY, "3")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("arm-1", "arm-1"), ("", '""'), ("a b", '"a b"'), ("a=b", '"a=b"'), ('"', r'"\""')],
)
def test_a_value_is_quoted_where_it_must_be(value, shown):
    assert line("event=a client=%s", value).endswith(f" client={shown}")


def test_an_error_is_a_value_too():
    written = line("event=a reason=%s", ValueError("\x1b[2J"))
    assert written.endswith(r'reason="\u001b[2J"')


def test_messages_and_traces_of_others_have_no_terminal_commands_in_them():
    assert line("server %s: \x7f", NASTY).isprintable()
    assert line("event=failed", error=ValueError(NASTY)).isprintable()


def test_a_stack_trace_stays_on_its_line():
    written = line("event=failed", error=ValueError("no\nway"))
    assert 'event=failed trace="ValueError: no\\nway"' in written
