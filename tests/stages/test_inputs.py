"""Policies and data that do not fit the simulation are refused before anything starts."""

import json

import pytest

from lefleet.errors import BadInput
from lefleet.sim.encode import FPS
from lefleet.stages.inputs import require_same_shape, require_simulable
from lefleet.stages.layout import FEATURES, ROBOT_TYPE
from lefleet.stages.references import CheckpointReference
from tests.samples import dataset_record


def policy(folder, inputs=None, outputs=None) -> CheckpointReference:
    inputs = {"observation.state": [4]} if inputs is None else inputs
    outputs = {"action": [4]} if outputs is None else outputs
    config = {
        "input_features": {key: {"shape": shape} for key, shape in inputs.items()},
        "output_features": {key: {"shape": shape} for key, shape in outputs.items()},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return CheckpointReference(str(folder), "digest")


def data(folder, key="", change=None, **changes):
    """A dataset of the simulation, with one feature or one entry of its description changed."""
    features = {name: dict(feature) for name, feature in FEATURES.items()}
    if key:
        features.setdefault(key, {"dtype": "float32", "shape": [1], "names": ["a"]})
        features[key] |= change or {}
    info = {"fps": FPS, "robot_type": ROBOT_TYPE, "features": features} | changes
    (folder / "meta").mkdir()
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return dataset_record(root=str(folder))


def test_a_policy_that_sees_part_of_what_the_simulation_shows_is_accepted(tmp_path):
    require_simulable(policy(tmp_path), "checkpoint")


def test_a_policy_that_wants_another_shape_is_refused_naming_it(tmp_path):
    reference = policy(tmp_path, inputs={"observation.state": [14]})
    expected = (
        r"checkpoint: the policy's observation\.state has shape \[14\], the simulation's \[4\]"
    )
    with pytest.raises(BadInput, match=expected):
        require_simulable(reference, "checkpoint")


def test_a_policy_that_wants_a_camera_is_refused_naming_it(tmp_path):
    reference = policy(tmp_path, inputs={"observation.images.top": [3, 64, 64]})
    with pytest.raises(BadInput, match=r"observation\.images\.top .* does not exist"):
        require_simulable(reference, "checkpoint")


def test_a_policy_with_other_actions_is_refused(tmp_path):
    with pytest.raises(BadInput, match="baseline: the policy's action has shape"):
        require_simulable(policy(tmp_path, outputs={"action": [7]}), "baseline")


def test_data_of_the_simulation_can_be_added_to(tmp_path):
    require_same_shape(data(tmp_path), "demos")


@pytest.mark.parametrize("changes", [{"fps": 30}, {"robot_type": "so101"}])
def test_data_of_another_robot_is_refused(tmp_path, changes):
    with pytest.raises(BadInput, match=f"differs from the simulation in {next(iter(changes))}"):
        require_same_shape(data(tmp_path, **changes), "demos")


@pytest.mark.parametrize("key", FEATURES)
@pytest.mark.parametrize("change", [{"shape": [1]}, {"dtype": "float64"}, {"names": ["a"]}])
def test_data_of_another_shape_is_refused_naming_the_feature(tmp_path, key, change):
    with pytest.raises(BadInput, match=f"differs from the simulation in {key}"):
        require_same_shape(data(tmp_path, key, change), "demos")


def test_data_with_a_further_observation_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"observation\.force"):
        require_same_shape(data(tmp_path, "observation.force"), "demos")
