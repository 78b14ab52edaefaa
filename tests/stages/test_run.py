"""One stage in its folder: refused, finished, or returned as it is, here or in a child process."""

import json

import pytest

from lefleet.errors import BadInput, LeFleetError
from lefleet.records import EvaluateRequest, ExpertDemos, TrainRequest
from lefleet.stages import Update, run_stage
from lefleet.stages.folder import StageFolder
from lefleet.stages.progress import ProgressWriter
from lefleet.stages.run import run_in_child
from tests.devices import needs_no_gpu
from tests.samples import checkpoint_record, dataset_record, finished_stage

REQUEST = ExpertDemos(tasks=("push",), episodes_per_task=1)


def test_a_finished_stage_answers_with_its_record(tmp_path):
    finished_stage(tmp_path / "a", REQUEST, dataset_record())
    before = sorted(tmp_path.rglob("*"))
    assert run_stage(REQUEST, tmp_path / "a") == dataset_record()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_request_that_breaks_a_constraint_makes_no_folder(tmp_path):
    with pytest.raises(BadInput, match="episodes_per_task"):
        run_stage(ExpertDemos(episodes_per_task=0), tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "request_",
    [
        ExpertDemos(tasks=("pussh",)),
        TrainRequest(dataset="/no/such/folder"),
        EvaluateRequest(checkpoint="/no/such/folder"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_refused_request_leaves_no_folder(tmp_path, request_):
    with pytest.raises(BadInput):
        run_stage(request_, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_refusal_in_a_folder_that_was_there_before_keeps_the_folder(tmp_path):
    request = TrainRequest(dataset=str(tmp_path / "gone"))
    with StageFolder(tmp_path / "a", request):
        pass
    with pytest.raises(BadInput):
        run_stage(request, tmp_path / "a")
    assert (tmp_path / "a" / "request.json").exists()


def test_a_folder_may_be_named_relative_to_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished_stage(tmp_path / "a", REQUEST, dataset_record())
    assert run_stage(REQUEST, "a") == dataset_record()


REFUSED = TrainRequest(dataset="/no/such/folder")


def test_a_finished_stage_answers_without_a_child(tmp_path):
    request = ExpertDemos(tasks=("push",))
    finished_stage(tmp_path / "a", request, dataset_record())
    assert run_in_child(request, tmp_path / "a") == dataset_record()
    assert not (tmp_path / "a" / "log.txt").exists()


def test_what_the_child_refuses_is_refused_here_with_its_message_and_exit_code(tmp_path):
    with pytest.raises(LeFleetError) as caught:
        run_in_child(REFUSED, tmp_path / "a")
    assert caught.value.problem == "dataset: /no/such/folder does not exist."
    assert caught.value.remedy.startswith("Name a finished collect")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "a").exists()


def test_what_an_earlier_attempt_reported_is_not_shown(tmp_path):
    with StageFolder(tmp_path / "a", REFUSED):
        ProgressWriter(tmp_path / "a")(Update(500, 1000, "steps"))
    shown = []
    with pytest.raises(LeFleetError):
        run_in_child(REFUSED, tmp_path / "a", shown.append)
    assert shown[0].what == "starting the process"


def test_a_refusal_by_the_child_keeps_a_folder_that_was_there_before(tmp_path):
    with StageFolder(tmp_path / "a", REFUSED):
        pass
    with pytest.raises(LeFleetError):
        run_in_child(REFUSED, tmp_path / "a")
    assert (tmp_path / "a" / "request.json").exists()


def test_a_child_that_crashes_is_reported_with_its_last_lines_and_its_log(tmp_path):
    damaged = tmp_path / "data"
    (damaged / "meta").mkdir(parents=True)
    action = {"dtype": "float32", "shape": [2], "names": 7}
    (damaged / "meta" / "info.json").write_text(json.dumps({"features": {"action": action}}))
    record = dataset_record(root=str(damaged))
    demos = finished_stage(tmp_path / "demos", ExpertDemos(), record)
    with pytest.raises(LeFleetError) as caught:
        run_in_child(TrainRequest(dataset=str(demos)), tmp_path / "a")
    assert caught.value.exit_code == 1
    assert "exited with code 1: TypeError" in caught.value.problem
    assert str(tmp_path / "a" / "log.txt") in caught.value.remedy
    assert "Run the same command again to resume it, or start anew with --restart" in str(
        caught.value
    )


@needs_no_gpu
@pytest.mark.parametrize("run", [run_stage, run_in_child])
def test_a_missing_device_is_refused_before_there_is_a_folder(tmp_path, run):
    with pytest.raises(BadInput, match="device: cuda cannot be used"):
        run(TrainRequest(dataset="/no/such/folder", device="cuda"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


@needs_no_gpu
def test_the_device_that_auto_means_here_is_recorded(tmp_path):
    cpu = TrainRequest(dataset="/no/such/folder", device="cpu")
    finished_stage(tmp_path / "a", cpu, checkpoint_record())
    auto = TrainRequest(dataset="/no/such/folder", device="auto")
    assert run_stage(auto, tmp_path / "a") == checkpoint_record()
    assert run_in_child(auto, tmp_path / "a") == checkpoint_record()


def test_a_finished_stage_answers_also_where_its_device_is_gone(tmp_path):
    request = TrainRequest(dataset="/no/such/folder", device="cuda:99")
    finished_stage(tmp_path / "a", request, checkpoint_record())
    assert run_in_child(request, tmp_path / "a") == checkpoint_record()
