"""One stage in its folder: refused, finished, or returned as it is."""

import pytest

from lefleet.errors import BadInput
from lefleet.records import EvaluateRequest, ExpertDemos, TrainRequest
from lefleet.stages import run_stage
from lefleet.stages.folder import StageFolder
from tests.samples import dataset_record, finished_stage

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
