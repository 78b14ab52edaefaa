"""What is said of a dataset and of a checkpoint, from their metadata alone."""

import json
import shutil
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.queries.inspect import inspect_checkpoint, inspect_dataset
from lefleet.stages.contract import SIMULATED_INFO
from lefleet.stages.folder import read_record


@pytest.fixture
def dataset(demos, tmp_path) -> Path:
    """A copy of the demonstrations, to be changed."""
    return Path(shutil.copytree(demos / "dataset", tmp_path / "dataset"))


def change(root: Path, file: str, **changes) -> None:
    path = root / "meta" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_dataset_of_the_simulation(demos):
    found = inspect_dataset(demos / "dataset")
    record = read_record(demos)
    assert (found.episodes, found.frames, found.fps) == (15, record.frames, 80)
    assert found.tasks == record.tasks
    assert found.robot_type == "metaworld_sawyer"
    assert {one.key for one in found.vectors} == set(SIMULATED_INFO["features"])
    (action,) = [one for one in found.vectors if one.kind == "ACTION"]
    assert [one.name for one in action.columns] == SIMULATED_INFO["features"]["action"]["names"]
    assert all(-1 <= one.low <= one.mean <= one.high <= 1 for one in action.columns)
    assert set(found.training.normalisation.mapping.values()) == {"IDENTITY"}
    assert (found.training.refused, found.contract_lacks, found.cameras) == ((), (), ())
    assert found.training.is_small


def test_another_family_is_asked_about(demos):
    training = inspect_dataset(demos / "dataset", "diffusion").training
    assert training.normalisation.mapping["STATE"] == "MIN_MAX"
    assert not training.is_small


def test_what_a_training_would_refuse_is_listed(dataset):
    (dataset / "meta" / "stats.json").unlink()
    change(dataset, "info.json", robot_type="so101_follower")
    refused = inspect_dataset(dataset).training.refused
    assert [one.problem.partition(":")[0] for one in refused] == [
        "action",
        "observation.state",
        "observation.environment_state",
    ]
    assert all("recompute_stats" in one.remedy for one in refused)


def test_a_dataset_without_its_data_is_refused(dataset):
    shutil.rmtree(dataset / "data")
    (first,) = inspect_dataset(dataset).training.refused
    assert first.problem == "data/chunk-000/file-000.parquet: missing."


def test_names_and_the_robot_are_missing_for_a_contract(dataset):
    features = json.loads((dataset / "meta" / "info.json").read_text())["features"]
    features["observation.state"]["names"] = None
    change(dataset, "info.json", features=features, robot_type=None)
    found = inspect_dataset(dataset)
    assert found.contract_lacks == ("names of the columns of observation.state", "the robot type")


def test_an_unknown_family_is_refused_with_the_rest_of_the_answer(demos):
    found = inspect_dataset(demos / "dataset", "nonsense")
    assert found.training.refused[0].problem.startswith("policy_type: ")
    assert found.training.normalisation is None


@pytest.mark.parametrize("names", ["abc", 3, {"motors": "abc"}])
def test_names_that_are_no_names_are_an_error(dataset, names):
    features = json.loads((dataset / "meta" / "info.json").read_text())["features"]
    features["action"]["names"] = names
    change(dataset, "info.json", features=features)
    with pytest.raises(BadInput, match="names of action"):
        inspect_dataset(dataset)


def test_a_checkpoint_with_its_training(weak):
    record = read_record(weak)
    found = inspect_checkpoint(Path(record.path))
    assert (found.policy_type, found.steps, found.chunk_size) == ("act", 20, 10)
    assert found.final_loss == record.final_loss
    assert found.normalisation == record.normalisation
    assert found.contract == record.contract
    assert found.contract_lacks == ()
    assert found.inputs["observation.state"] == (4,)
    assert found.outputs == {"action": (4,)}


def test_a_checkpoint_of_others_says_what_its_config_says(checkpoint_of):
    found = inspect_checkpoint(checkpoint_of("act_images"))
    assert found.normalisation.mapping["STATE"] == "MEAN_STD"
    assert (found.steps, found.final_loss) == (0, None)


def test_a_config_without_a_policy_is_no_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(BadInput, match="names no policy type"):
        inspect_checkpoint(tmp_path)


def test_what_a_checkpoint_makes_itself_is_no_input_of_it(checkpoint_of):
    assert inspect_checkpoint(checkpoint_of("act_state")).inputs == {"observation.state": (3,)}
