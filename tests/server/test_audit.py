"""A line for each request, wherever it goes."""

import io
import json
import threading
from dataclasses import fields

import pytest

from lefleet.errors import BadInput
from lefleet.server import audit
from lefleet.server.audit import AuditLog, open_audit
from lefleet.server.outcome import Outcome
from tests.client.transport.waiting import LONG_S
from tests.server.outcomes import ANSWERED, outcome


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_holds_every_field_of_its_outcome(tmp_path):
    path = tmp_path / "logs" / "audit.jsonl"
    log = open_audit(str(path))
    log.finished(ANSWERED)
    log.close()
    (line,) = lines(path)
    assert line.pop("time").endswith("Z")
    assert line.pop("event") == "request"
    assert line == {field.name: getattr(ANSWERED, field.name) for field in fields(Outcome)}


def test_fields_are_documented():
    documented = audit.__doc__.replace(",", " ").split()
    assert {field.name for field in fields(Outcome)} <= set(documented)


def test_a_file_is_added_to(tmp_path):
    path = tmp_path / "audit.jsonl"
    for seq in (1, 2):
        log = open_audit(str(path))
        log.finished(outcome(seq_id=seq))
        log.close()
    assert [line["seq_id"] for line in lines(path)] == [1, 2]


def test_a_reason_with_a_line_break_stays_on_one_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = open_audit(str(path))
    log.finished(outcome(result="failed", reason="a\nb"))
    log.close()
    assert [line["reason"] for line in lines(path)] == ["a\nb"]


def test_stdout_gets_lines_and_stays_open(capfdbinary):
    log = open_audit("stdout")
    log.finished(ANSWERED)
    log.close()
    log = open_audit("stdout")
    log.finished(ANSWERED)
    log.close()
    assert capfdbinary.readouterr().out.count(b'"event":"request"') == 2


def test_none_is_nobody():
    assert open_audit("none") is None


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="audit: "):
        open_audit(str(tmp_path))


def test_a_stream_that_fails_harms_nobody():
    class Broken(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError

    log = AuditLog(Broken())
    log.finished(ANSWERED)
    log.close()
    assert log.skipped == 1


def test_a_reader_that_is_stuck_does_not_hold_up_the_server():
    started, may_go = threading.Event(), threading.Event()

    class Stuck(io.BytesIO):
        def write(self, data):
            started.set()
            may_go.wait(LONG_S)
            return len(data)

    log = AuditLog(Stuck())
    log.finished(ANSWERED)
    assert started.wait(LONG_S)
    log.finished(ANSWERED)
    assert log.skipped == 0
    may_go.set()
    log.close()
