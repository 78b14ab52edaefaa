"""A stage as a process of its own."""

import pytest

from lefleet.errors import LeFleetError
from lefleet.records import ExpertDemos, TrainRequest
from lefleet.stages.child import run_in_child
from lefleet.stages.folder import StageFolder, silent
from tests.samples import dataset_record, finished_stage

REFUSED = TrainRequest(dataset="/no/such/folder")


def test_a_finished_stage_answers_without_a_child(tmp_path):
    request = ExpertDemos(tasks=("push",))
    finished_stage(tmp_path / "a", request, dataset_record())
    assert run_in_child(request, tmp_path / "a", silent) == dataset_record()
    assert not (tmp_path / "a" / "log.txt").exists()


def test_what_the_child_refuses_is_refused_here_with_its_words_and_exit_code(tmp_path):
    with pytest.raises(LeFleetError) as caught:
        run_in_child(REFUSED, tmp_path / "a", silent)
    assert caught.value.problem == "dataset: /no/such/folder does not exist."
    assert caught.value.remedy.startswith("Name a finished collect")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "a").exists()


def test_a_refusal_in_a_folder_that_was_there_before_keeps_the_folder(tmp_path):
    with StageFolder(tmp_path / "a", REFUSED):
        pass
    with pytest.raises(LeFleetError):
        run_in_child(REFUSED, tmp_path / "a", silent)
    assert (tmp_path / "a" / "request.json").exists()


def test_a_child_that_crashes_is_reported_with_its_last_words_and_its_log(tmp_path):
    damaged = tmp_path / "data"
    (damaged / "meta").mkdir(parents=True)
    (damaged / "meta" / "info.json").write_text("{}")
    record = dataset_record(root=str(damaged))
    demos = finished_stage(tmp_path / "demos", ExpertDemos(), record)
    with pytest.raises(LeFleetError) as caught:
        run_in_child(TrainRequest(dataset=str(demos)), tmp_path / "a", silent)
    assert caught.value.exit_code == 1
    assert "exited with code 1: KeyError" in caught.value.problem
    assert str(tmp_path / "a" / "log.txt") in caught.value.remedy
