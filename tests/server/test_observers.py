"""A line for each request, and writing that never blocks a request."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import fields

import pytest

from lefleet.errors import BadInput
from lefleet.server import observers
from lefleet.server.observers import (
    AuditLog,
    BackgroundWriter,
    EventCounts,
    RequestOutcome,
    open_audit,
)
from tests.client.transport.waiting import LONG_S
from tests.server.samples import ANSWERED, outcome


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
    assert line == {field.name: getattr(ANSWERED, field.name) for field in fields(RequestOutcome)}


def test_fields_are_documented():
    documented = observers.__doc__.replace(",", " ").split()
    assert {field.name for field in fields(RequestOutcome)} <= set(documented)


def test_a_file_is_added_to(tmp_path):
    path = tmp_path / "audit.jsonl"
    for seq in (1, 2):
        log = open_audit(str(path))
        log.finished(outcome(seq_id=seq))
        log.close()
    assert [line["seq_id"] for line in lines(path)] == [1, 2]


WHOLE = b'{"time":"2026","seq_id":1}\n'


@pytest.mark.parametrize("torn", [b"{", b'{"time":"2026","seq_', b'{"time":"2026","seq_id":2}'])
def test_an_unfinished_last_line_is_cut_off_at_the_start(tmp_path, torn, caplog):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(WHOLE + torn)
    log = open_audit(str(path))
    log.finished(outcome(seq_id=3))
    log.close()
    assert [line["seq_id"] for line in lines(path)] == [1, 3]
    assert f"event=audit_line_cut path={path} bytes={len(torn)}" in caplog.text


def test_what_another_program_wrote_is_not_cut_off(tmp_path):
    path = tmp_path / "notes"
    path.write_bytes(b"mine")
    open_audit(str(path)).close()
    open_audit(str(path)).close()
    assert path.read_bytes() == b"mine\n"


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for a few lines, and a function that changes its size."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(small)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can only be mounted by root")

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(small)], check=True)

    yield small, resize
    subprocess.run(["umount", "-l", str(small)], check=True)


def _fill(log: AuditLog, first: int) -> int:
    """Write until lines are skipped; the number of the next line."""
    before = log.skipped
    while log.skipped < before + 3:
        log.finished(outcome(seq_id=first))
        first += 1
        time.sleep(0)
    return first


def test_a_disk_that_fills_twice_leaves_whole_lines_only(small_disk):
    folder, resize = small_disk
    path, number = folder / "audit.jsonl", 0
    for size in ("16k", "28k"):
        log = open_audit(str(path))
        number = _fill(log, number)
        log.close()
        assert path.stat().st_size % 4096 == 0, "the disk was filled to its last byte"
        resize(size)
    log = open_audit(str(path))
    for size in ("36k", "60k"):
        number = _fill(log, number)
        resize(size)
    log.finished(outcome(seq_id=number))
    log.close()
    written = [line["seq_id"] for line in lines(path)]
    assert written[-1] == number
    assert written == sorted(set(written))


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


def test_none_is_no_log():
    assert open_audit("none") is None


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_stay_out_of_a_terminal_unless_they_are_asked_for(monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    for where, is_written in (("auto", not is_terminal), ("stdout", True)):
        log = open_audit(where)
        assert (log is not None) == is_written
        if log is not None:
            log.close()


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="audit: "):
        open_audit(str(tmp_path))


def test_a_stream_that_fails_is_only_counted():
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


def test_work_is_done_in_order_and_finished_before_it_closes():
    done = []
    work = BackgroundWriter("test", done.append, room=100)
    for number in range(50):
        work.offer(number)
    assert work.close(LONG_S)
    assert done == list(range(50))
    assert work.skipped == 0


def test_offering_too_much_does_not_wait_and_is_counted():
    started, may_go = threading.Event(), threading.Event()

    def stuck(number: int) -> None:
        started.set()
        may_go.wait(LONG_S)

    work = BackgroundWriter("test", stuck, room=2)
    work.offer(0)
    assert started.wait(LONG_S)
    for number in range(5):
        work.offer(number)
    assert work.skipped == 3
    may_go.set()
    assert work.close(LONG_S)


def test_closing_does_not_wait_for_work_that_is_stuck():
    may_go = threading.Event()
    work = BackgroundWriter("test", lambda item: may_go.wait(LONG_S), room=1)
    work.offer(1)
    assert not work.close(timeout_s=0.01)
    may_go.set()


def test_an_error_is_said_once_counted_and_survived(caplog):
    done = []

    def picky(number: int) -> None:
        if number % 2:
            raise OSError("the disk is full")
        done.append(number)

    work = BackgroundWriter("test", picky, room=10)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            work.offer(number)
        assert work.close(LONG_S)
    assert done == [0, 2, 4]
    assert work.skipped == 2
    assert [record.getMessage().count("the disk is full") for record in caplog.records] == [1]


def test_an_error_is_logged_also_when_items_were_skipped_before(caplog):
    started, may_go = threading.Event(), threading.Event()

    def failing(number: int) -> None:
        started.set()
        may_go.wait(LONG_S)
        raise OSError("the disk is full")

    work = BackgroundWriter("test", failing, room=1)
    work.offer(0)
    assert started.wait(LONG_S)
    work.offer(1)
    work.offer(2)
    may_go.set()
    assert work.close(LONG_S)
    assert work.skipped == 3
    assert caplog.text.count("the disk is full") == 1


def test_what_comes_after_closing_is_skipped():
    work = BackgroundWriter("test", print, room=1)
    work.close(LONG_S)
    work.offer(1)
    assert work.skipped == 1


class SlowName(str):
    """A name that lets other threads run whenever it is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


def test_counts_of_several_threads_are_all_there():
    """Without a lock, threads that read and write one number lose some."""
    counts, begin, name = EventCounts(), threading.Barrier(4), SlowName("seen")

    def add() -> None:
        begin.wait(LONG_S)
        for _ in range(100):
            counts.add(name)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert counts.snapshot() == {"seen": 400}
