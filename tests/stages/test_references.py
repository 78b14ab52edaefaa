"""What a user may name as a checkpoint or a dataset, and what is said when it is none."""

import shutil
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.records import ExpertDemos, ImproveRequest, TrainRequest, encode
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.folder import StageFolder
from lefleet.stages.references import find_checkpoint, find_dataset
from tests.samples import checkpoint_record, dataset_record, finished_stage, mix_record

TRAIN = TrainRequest(dataset="d")


def unfinished_stage(folder, request):
    with StageFolder(folder, request):
        return folder


def with_data(root) -> str:
    """A folder that looks like a dataset; its path."""
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "info.json").write_text("{}")
    return str(root)


def problem_of(find, name) -> str:
    with pytest.raises(BadInput) as caught:
        find(str(name), "field")
    return str(caught.value)


INSIDE = Path("training/checkpoints/000100/pretrained_model")


@pytest.fixture
def training(tmp_path):
    """A finished train stage that was made elsewhere and moved here."""
    weights = tmp_path / "train" / INSIDE
    weights.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (weights / name).write_text("{}")
    (weights.parents[1] / "last").symlink_to("000100")
    record = checkpoint_record(path=str("/elsewhere" / INSIDE), digest=checkpoint_digest(weights))
    (tmp_path / "train" / "request.json").write_bytes(encode(TRAIN))
    (tmp_path / "train" / "record.json").write_bytes(encode(record))
    return tmp_path / "train"


@pytest.mark.parametrize("inside", ["", INSIDE, "training", "training/checkpoints/000100"])
def test_a_finished_training_stands_for_its_checkpoint(training, inside):
    found = find_checkpoint(str(training / inside), "init")
    assert found == (str(training / INSIDE), checkpoint_digest(training / INSIDE))


@pytest.mark.parametrize("inside", ["", INSIDE, "training", "training/checkpoints/000100"])
def test_weights_that_changed_since_their_training_are_refused(training, inside):
    (training / INSIDE / "model.safetensors").write_text("other weights")
    text = problem_of(find_checkpoint, training / inside)
    assert text.startswith(f"field: the files in {training / INSIDE} have changed since")
    assert "copy the folder elsewhere" in text


def test_a_copy_of_changed_weights_is_a_checkpoint_of_its_own(training, tmp_path):
    (training / INSIDE / "model.safetensors").write_text("other weights")
    copy = shutil.copytree(training / INSIDE, tmp_path / "copy")
    assert find_checkpoint(str(copy), "init") == (str(copy), checkpoint_digest(copy))


def test_an_earlier_checkpoint_of_the_same_training_has_its_own_digest(training):
    earlier = shutil.copytree(training / INSIDE, training / str(INSIDE).replace("100", "050"))
    (earlier / "model.safetensors").write_text("earlier weights")
    assert find_checkpoint(str(earlier), "init").digest == checkpoint_digest(earlier)


def test_a_training_whose_weights_are_gone_is_bad_input(tmp_path):
    folder = finished_stage(tmp_path / "train", TRAIN, checkpoint_record())
    assert "are missing" in problem_of(find_checkpoint, folder)


@pytest.mark.parametrize("inside", ["", "pretrained_model", "checkpoints/last/pretrained_model"])
def test_a_folder_of_lerobot_stands_for_its_checkpoint(tmp_path, inside):
    model = tmp_path / inside
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text("{}")
    found = find_checkpoint(str(tmp_path), "init")
    assert found == (str(model.resolve()), checkpoint_digest(model))


def test_a_checkpoint_that_does_not_exist_is_bad_input_naming_the_field(tmp_path):
    text = problem_of(find_checkpoint, tmp_path / "missing")
    assert text.startswith(f"field: {tmp_path / 'missing'} does not exist. Name a finished train")


def test_a_training_that_is_not_finished_is_no_checkpoint(tmp_path):
    folder = unfinished_stage(tmp_path / "train", TRAIN)
    text = problem_of(find_checkpoint, folder)
    assert text.startswith(f"field: the stage in {folder} is not finished.")


def test_a_folder_without_a_checkpoint_is_said_to_hold_none(tmp_path):
    text = problem_of(find_checkpoint, tmp_path)
    assert text.startswith(f"field: {tmp_path} holds no checkpoint.")


def test_a_finished_stage_of_another_kind_holds_no_checkpoint(tmp_path):
    folder = finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record())
    assert "holds no checkpoint" in problem_of(find_checkpoint, folder)


def test_a_hub_id_that_cannot_be_loaded_is_bad_input_naming_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    text = problem_of(find_checkpoint, "nobody/nothing")
    assert text.startswith("field: nobody/nothing is not a folder here and could not be loaded")


def test_a_finished_collection_stands_for_its_data(tmp_path):
    folder = finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record())
    here = with_data(folder / "dataset")
    assert find_dataset(str(folder), "dataset") == (dataset_record(root=here), 0)


def test_data_outside_its_stage_folder_is_found_where_it_was(tmp_path):
    outside = with_data(tmp_path / "mine")
    record = dataset_record(root=outside)
    folder = finished_stage(tmp_path / "select", ExpertDemos(), record)
    assert find_dataset(str(folder), "dataset") == (record, 0)


def test_data_that_is_gone_is_bad_input(tmp_path):
    folder = finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record())
    assert "is missing" in problem_of(find_dataset, folder)


def test_a_finished_mix_stands_for_its_data_and_knows_what_policies_made(tmp_path):
    request = ImproveRequest(checkpoint="c", demos="d")
    folder = finished_stage(tmp_path / "mix", request, mix_record(self_generated=7))
    here = with_data(folder / Path(mix_record().dataset.root).name)
    assert find_dataset(str(folder), "demos").self_generated == 7
    assert find_dataset(str(folder), "demos").record.root == here


def test_data_that_does_not_exist_is_bad_input_naming_the_field(tmp_path):
    text = problem_of(find_dataset, tmp_path / "missing")
    assert text.startswith(f"field: {tmp_path / 'missing'} does not exist. Name a finished collect")


def test_a_collection_that_is_not_finished_is_no_data(tmp_path):
    folder = unfinished_stage(tmp_path / "demos", ExpertDemos())
    text = problem_of(find_dataset, folder)
    assert text.startswith(f"field: the stage in {folder} is not finished.")


def test_a_folder_without_data_is_said_to_hold_none(tmp_path):
    text = problem_of(find_dataset, tmp_path)
    assert text.startswith(f"field: {tmp_path} holds no dataset.")


def test_a_finished_training_holds_no_data(tmp_path):
    folder = finished_stage(tmp_path / "train", TRAIN, checkpoint_record())
    assert "holds no dataset" in problem_of(find_dataset, folder)
