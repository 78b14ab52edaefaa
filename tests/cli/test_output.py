"""Logs: one event, one line, keys and values."""

import io
import json
import logging
import re

import pytest

from lefleet.cli.output import KeyValueFormatter, TerminalFormatter, event_handler


def line(message: str, *values: object, error: BaseException | None = None) -> str:
    trace = (type(error), error, None) if error else None
    record = logging.LogRecord("lefleet.x", logging.INFO, "", 0, message, values, trace)
    record.created, record.msecs = 0.25, 250.0
    return KeyValueFormatter().format(record)


def test_an_event_stays_as_it_is():
    assert line("event=ready server=%s", "a") == (
        "time=1970-01-01T00:00:00.250Z level=info logger=lefleet.x event=ready server=a"
    )


def test_a_person_reads_the_time_of_day_and_the_event():
    record = logging.LogRecord(
        "lefleet.x", logging.INFO, "", 0, "event=ready server=%s", ("a",), None
    )
    assert re.fullmatch(r"\d\d:\d\d:\d\d ready server=a", TerminalFormatter().format(record))
    record.levelno, record.levelname = logging.WARNING, "WARNING"
    assert TerminalFormatter().format(record).endswith(" warning: ready server=a")


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


@pytest.mark.parametrize("pattern", ["event=opened client=%s", "event=opened client=%r"])
def test_a_long_value_is_cut_and_says_how_much_is_missing(pattern):
    written = line(pattern, "\x1b" + "x" * 16_000 + " the end")
    assert len(written) < 450
    assert "...(15709 characters)..." in written
    assert written.endswith(' the end"')


def test_long_messages_and_traces_of_others_are_cut():
    assert len(line("server %s", "x" * 100_000)) < 1200
    assert len(line("event=failed", error=ValueError("x" * 100_000))) < 9000


def test_an_event_without_end_is_counted_and_the_next_line_says_how_often(monkeypatch):
    written = io.StringIO()
    handler, now_s = event_handler(written), [0.0]
    monkeypatch.setattr("lefleet.cli.output.time.monotonic", lambda: now_s[0])
    refused = logging.LogRecord("x", logging.INFO, "a.py", 7, "event=refused", (), None)
    other = logging.LogRecord("x", logging.INFO, "a.py", 9, "event=opened", (), None)
    for _ in range(10_000):
        handler.handle(refused)
    handler.handle(other)
    now_s[0] = 1.0
    handler.handle(refused)
    lines = written.getvalue().splitlines()
    assert len(lines) == 502
    assert lines[-2].endswith("event=opened")
    assert lines[-1].endswith("event=refused unlogged=9500")
