"""Journals: what was appended survives a kill at any byte."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.errors import BadInput
from lefleet.records import (
    EpisodeRecord,
)
from lefleet.stages.folder import (
    Journal,
)
from tests.samples import episode

LINES = [episode("push", 1), episode("tür-auf", 2, video='a "quoted"\nname'), episode("reach", 3)]


def write(path, lines) -> bytes:
    with Journal(path, EpisodeRecord) as journal:
        for line in lines:
            journal.append(line)
    return path.read_bytes()


def read(path) -> list[EpisodeRecord]:
    with Journal(path, EpisodeRecord) as journal:
        return journal.lines


def test_a_new_journal_is_empty(tmp_path):
    assert read(tmp_path / "j") == []


def test_what_was_appended_is_there_at_the_next_opening(tmp_path):
    write(tmp_path / "j", LINES)
    assert read(tmp_path / "j") == LINES


def test_cut_at_any_byte_the_complete_lines_survive_and_appending_goes_on(tmp_path):
    path = tmp_path / "j"
    whole = write(path, LINES)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        intact = LINES[: whole[:cut].count(b"\n")]
        write(path, [episode("after", 9)])
        assert read(path) == [*intact, episode("after", 9)], cut


@given(garbage=st.binary(min_size=1).filter(lambda data: b"\n" not in data))
def test_garbage_after_the_last_line_is_dropped(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("journal") / "j"
    whole = write(path, LINES[:1])
    path.write_bytes(whole + garbage)
    assert read(path) == LINES[:1]
    assert path.read_bytes() == whole


def test_a_complete_line_that_cannot_be_read_is_an_error_and_nothing_is_lost(tmp_path):
    path = tmp_path / "j"
    first, _, third = write(path, LINES).splitlines(keepends=True)
    damaged = first + b"{}\n" + third
    path.write_bytes(damaged)
    with pytest.raises(BadInput, match="line 2"):
        read(path)
    assert path.read_bytes() == damaged


def test_a_line_is_synced_to_disk_when_append_returns(tmp_path, monkeypatch):
    path = tmp_path / "j"
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(path, EpisodeRecord) as journal:
        journal.append(LINES[0])
        assert synced == [path.read_bytes()]
        assert synced[0].endswith(b"\n")


def test_lines_show_what_was_appended_since_opening(tmp_path):
    write(tmp_path / "j", LINES[:1])
    with Journal(tmp_path / "j", EpisodeRecord) as journal:
        journal.append(LINES[1])
        assert journal.lines == LINES[:2]
