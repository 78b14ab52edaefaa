"""Progress of a stage, and its file."""

import pytest

from lefleet.stages import Update
from lefleet.stages.progress import PROGRESS, ProgressWriter, read_progress, timed


def test_a_report_is_read_back_with_its_times(tmp_path):
    ProgressWriter(tmp_path)(Update(3, 9, "episodes", "4 attempted", is_limit=True))
    said = read_progress(tmp_path)
    assert said is not None
    assert (said.done, said.total, said.unit, said.detail) == (3, 9, "episodes", "4 attempted")
    assert (said.first, said.is_limit) == (3, True)
    assert said.since == said.at


def test_a_stage_that_has_not_reported_has_no_progress(tmp_path):
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b'[1, 2, "steps", ""]'])
def test_a_file_that_cannot_be_read_is_no_progress(tmp_path, content):
    (tmp_path / PROGRESS).write_bytes(content)
    assert read_progress(tmp_path) is None


def test_time_counts_from_the_first_report_of_a_unit():
    first = timed(Update(5, 9, "episodes"), None, 10.0)
    second = timed(Update(6, 9, "episodes", "a remark"), first, 12.0)
    assert (second.first, second.since, second.at) == (5, 10.0, 12.0)
    written = timed(Update(0, 6, "episodes written"), second, 13.0)
    assert (written.first, written.since) == (0, 13.0)


def test_time_counts_from_the_beginning_of_a_phase():
    first = timed(Update.phase("loading LeRobot"), None, 10.0)
    assert timed(Update.phase("loading LeRobot"), first, 12.0).since == 10.0
    assert timed(Update.phase("merging"), first, 12.0).since == 12.0


def test_a_phase_and_the_end_of_a_unit_are_always_written(tmp_path):
    write = ProgressWriter(tmp_path)
    for update, shown in (
        (Update(1, 3, "steps"), "1 steps"),
        (Update(2, 3, "steps"), "1 steps"),
        (Update(3, 3, "steps"), "3 steps"),
        (Update.phase("merging"), "0 merging"),
    ):
        write(update)
        said = read_progress(tmp_path)
        assert said is not None
        assert f"{said.done} {said.what}" == shown
