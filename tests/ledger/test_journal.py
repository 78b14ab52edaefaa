"""events.jsonl is repaired from the event table."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.ledger import open_ledger
from lefleet.ledger.journal import EventJournal
from tests.ledger.ledgers import execute

NOISE = st.binary(max_size=20).filter(lambda some: b'"id"' not in some)


def write(ledger, folder: Path) -> bytes:
    with EventJournal(ledger, "r", folder) as journal:
        journal.write_new()
    return (folder / "events.jsonl").read_bytes()


@pytest.fixture
def whole(ledger, tmp_path) -> bytes:
    """The file as it should be: three events."""
    ledger.add_event("r", "note", {"text": "eins\nzwei – drei"})
    ledger.add_event("r", "note", {"deep": {"id": 7}})
    return write(ledger, tmp_path)


def test_every_event_is_a_line_with_id_time_and_kind(ledger, whole):
    lines = [json.loads(line) for line in whole.splitlines()]
    events = ledger.events("r")
    assert [(line["id"], line["kind"]) for line in lines] == [(e.id, e.kind) for e in events]
    assert lines[1]["text"] == "eins\nzwei – drei"


def test_nothing_new_writes_nothing(ledger, whole, tmp_path):
    assert write(ledger, tmp_path) == whole


def test_new_events_are_appended(ledger, whole, tmp_path):
    ledger.add_event("r", "note", {"number": 4})
    longer = write(ledger, tmp_path)
    assert longer.startswith(whole)
    assert json.loads(longer[len(whole) :])["number"] == 4


def test_a_journal_that_stays_open_appends_what_is_new(ledger, tmp_path):
    with EventJournal(ledger, "r", tmp_path) as journal:
        for number in range(3):
            ledger.add_event("r", "note", {"number": number})
            journal.write_new()
            lines = (tmp_path / "events.jsonl").read_text().splitlines()
            assert json.loads(lines[-1])["number"] == number


def test_a_file_cut_off_at_any_byte_is_repaired(ledger, whole, tmp_path):
    for end in range(len(whole) + 1):
        (tmp_path / "events.jsonl").write_bytes(whole[:end])
        assert write(ledger, tmp_path) == whole


@pytest.mark.parametrize(
    "garbage", [b"\0\0\0\n", b"{}\n", b"[1]\n", b"null\n", b'{"id": "x"}\n', b"\xff\xfe", b"\n\n"]
)
def test_garbage_at_the_end_is_replaced(ledger, whole, tmp_path, garbage):
    (tmp_path / "events.jsonl").write_bytes(whole + garbage)
    assert write(ledger, tmp_path) == whole


def test_a_line_that_was_written_twice_stays_once(ledger, whole, tmp_path):
    first = whole.splitlines(keepends=True)[0]
    (tmp_path / "events.jsonl").write_bytes(first + whole)
    assert write(ledger, tmp_path) == whole


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        (b'"run_created"', b'"run_deleted"'),
        (b'"deep"', b'"flat"'),
        (b'"id":2', b'"id":9'),
        (b'{"id":1,', b'{"id":1, '),
    ],
)
def test_a_line_that_differs_from_the_table_is_replaced(ledger, whole, tmp_path, there, instead):
    changed = whole.replace(there, instead)
    assert changed != whole
    (tmp_path / "events.jsonl").write_bytes(changed)
    assert write(ledger, tmp_path) == whole


def test_a_line_that_is_missing_in_the_middle_is_put_back(ledger, whole, tmp_path):
    first, _, last = whole.splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(first + last)
    assert write(ledger, tmp_path) == whole


def test_events_that_the_table_does_not_have_are_cut_off(ledger, whole, tmp_path):
    (tmp_path / "events.jsonl").write_bytes(whole + b'{"id":77,"at":1.0,"kind":"note"}\n')
    assert write(ledger, tmp_path) == whole


@settings(max_examples=15)
@given(st.integers(0, 90), NOISE)
def test_cut_and_overwritten_anywhere_it_has_every_event_once_and_in_order(cut, noise):
    with TemporaryDirectory() as name:
        folder = Path(name)
        ledger = open_ledger(folder)
        ledger.create_run("r", {})
        ledger.add_event("r", "note", {"text": "x"})
        good = write(ledger, folder)
        (folder / "events.jsonl").write_bytes(good[:cut] + noise)
        assert write(ledger, folder) == good
        ledger.close()


def test_more_events_than_one_answer_holds_are_all_written(ledger, tmp_path):
    rows = [("r", 1.0, "note", "{}")] * 1500
    execute(tmp_path, "INSERT INTO event (run, at, kind, data) VALUES (?, ?, ?, ?)", *rows)
    ids = [json.loads(line)["id"] for line in write(ledger, tmp_path).splitlines()]
    assert ids == list(range(1, 1502))
