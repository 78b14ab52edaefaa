"""Which policies can be trained on what a dataset has, before anything starts."""

import json

import pytest

from lefleet.errors import BadInput
from lefleet.stages.references import made_by
from lefleet.stages.state_only import missing_input, needs_step, require_inputs_of

STATE, ENVIRONMENT = "observation.state", "observation.environment_state"
JOINTS = {"action": {"dtype": "float32", "shape": [3]}, STATE: {"dtype": "float32", "shape": [3]}}
CAMERA = {"observation.images.top": {"dtype": "video", "shape": [48, 64, 3]}}
OBJECT = {ENVIRONMENT: {"dtype": "float32", "shape": [4]}}


@pytest.mark.parametrize(
    ("policy_type", "features", "expected"),
    [
        ("act", JOINTS, True),
        ("diffusion", JOINTS, True),
        ("act", JOINTS | OBJECT, False),
        ("act", JOINTS | CAMERA, False),
        ("tdmpc", JOINTS, False),
        ("somebodys", JOINTS, False),
    ],
)
def test_the_step_is_for_policies_that_would_refuse_a_state_alone(policy_type, features, expected):
    assert needs_step(policy_type, features) is expected


@pytest.mark.parametrize("policy_type", ["act", "diffusion", "somebodys"])
def test_a_state_alone_can_be_trained_on(policy_type):
    assert missing_input(policy_type, JOINTS) is None


@pytest.mark.parametrize("policy_type", ["vqbet", "smolvla", "pi05"])
def test_policies_that_look_through_cameras_are_refused_without_one(policy_type):
    assert missing_input(policy_type, JOINTS | CAMERA) is None
    problem, _ = missing_input(policy_type, JOINTS)
    assert problem == f"{policy_type} needs a camera, and the dataset has only observation.state."


def test_a_policy_that_learns_from_rewards_is_refused_without_them():
    problem, _ = missing_input("tdmpc", JOINTS)
    assert problem == "tdmpc learns from rewards, and the dataset has no next.reward."
    rewarded = JOINTS | {"next.reward": {"dtype": "float32", "shape": [1]}}
    assert missing_input("tdmpc", rewarded) is None


def test_data_without_any_observation_is_refused():
    problem, _ = missing_input("act", {"action": JOINTS["action"]})
    assert problem.endswith("or a camera, and the dataset has no observation.")


def checkpoint(folder, inputs, *, policy_type="act", steps=()):
    kinds = {STATE: "STATE", ENVIRONMENT: "ENV", "observation.images.top": "VISUAL"}
    features = {key: {"type": kinds[key], "shape": shape} for key, shape in inputs.items()}
    (folder / "config.json").write_text(
        json.dumps({"type": policy_type, "input_features": features})
    )
    named = [{"registry_name": name} for name in steps]
    (folder / "policy_preprocessor.json").write_text(json.dumps({"steps": named}))
    return folder


def test_a_checkpoint_that_makes_its_environment_state_continues_on_a_state_alone(tmp_path):
    inputs = {STATE: [3], ENVIRONMENT: [3]}
    made = checkpoint(tmp_path, inputs, steps=["lefleet_environment_state"])
    assert made_by(made) == {ENVIRONMENT}
    require_inputs_of(made, JOINTS, {}, "data")
    with pytest.raises(BadInput, match=r"init: the policy takes observation.environment_state"):
        require_inputs_of(checkpoint(tmp_path, inputs), JOINTS, {}, "data")


def test_a_checkpoint_of_another_arm_is_refused_unless_it_pads_its_vectors(tmp_path):
    with pytest.raises(BadInput, match=r"takes observation.state with shape \[7\], and data has i"):
        require_inputs_of(checkpoint(tmp_path, {STATE: [7]}), JOINTS, {}, "data")
    large = checkpoint(tmp_path, {STATE: [7]}, policy_type="smolvla")
    require_inputs_of(large, JOINTS, {}, "data")


def test_names_are_compared_after_renaming(tmp_path):
    joints = {"action": JOINTS["action"], "observation.joints": JOINTS[STATE]}
    folder = checkpoint(tmp_path, {STATE: [3], "observation.images.top": [3, 48, 64]})
    require_inputs_of(folder, joints, {"observation.joints": STATE}, "data")
