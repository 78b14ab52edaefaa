"""Where names of columns come from, and what happens where they are unknown."""

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from lerobot.configs import FeatureType, PolicyFeature

from lefleet.errors import BadInput
from lefleet.policy import ContractOverride
from lefleet.policy.checkpoint import CheckpointFiles, features_of, height_width_channels
from lefleet.policy.contract import FoundContract, find_contract
from lefleet.records import CheckpointContract, encode
from lefleet_client import wire

STATE, ENVIRONMENT = "observation.state", "observation.environment_state"
TOP, WRIST = "observation.images.top", "observation.images.wrist"


def config(*cameras: str, names: list[str] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        type="pi0" if names else "act",
        input_features={
            STATE: PolicyFeature(FeatureType.STATE, (2,)),
            ENVIRONMENT: PolicyFeature(FeatureType.ENV, (1,)),
        }
        | {key: PolicyFeature(FeatureType.VISUAL, (3, 48, 64)) for key in cameras},
        action_feature=PolicyFeature(FeatureType.ACTION, (2,)),
        action_feature_names=names,
    )


def find(
    folder: Path, policy: SimpleNamespace, override: ContractOverride | None = None, **how
) -> FoundContract:
    how = {"trust_order": False, "rename_map": {}} | how
    files = CheckpointFiles(folder, folder)
    return find_contract(folder, policy, features_of(files, policy), override, **how)


def beside_weights(folder: Path, **changes) -> Path:
    values = {
        "action_names": ("a", "b"),
        "vectors": {STATE: ("a", "b"), ENVIRONMENT: ("x",), "observation.unused": ("u",)},
        "cameras": {TOP: (480, 640, 3), "observation.images.unused": (480, 640, 3)},
        "fps": 25,
        "policy_type": "act",
        "robot_type": "so101",
        "tasks": (),
        "dataset_digest": "",
    }
    (folder / "lefleet.json").write_bytes(encode(CheckpointContract(**values | changes)))
    return folder


def trained_on(folder: Path, root: Path, **names) -> Path:
    """train_config.json, and what is left of the dataset that it names."""
    named = {"action": ["a", "b"], STATE: {"motors": ["a", "b"]}, ENVIRONMENT: {"x": 0}} | names
    features = {key: {"dtype": "float32", "names": value} for key, value in named.items()}
    features[TOP] = {"dtype": "video", "shape": [480, 640, 3], "names": ["h", "w", "c"]}
    (root / "meta").mkdir(parents=True)
    info = {"fps": 15, "robot_type": "so101", "features": features}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    written = {"dataset": {"repo_id": "local/data", "root": str(root)}}
    (folder / "train_config.json").write_text(json.dumps(written))
    return folder


SAID = ContractOverride(
    action_names=("a", "b"), vectors={STATE: ("a", "b"), ENVIRONMENT: ("x",)}, fps=30
)


def test_the_file_beside_the_weights_comes_first(tmp_path):
    trained_on(beside_weights(tmp_path), tmp_path / "data", action=["other", "names"])
    found = find(tmp_path, config(TOP))
    assert found.contract == wire.Contract(
        action_names=("a", "b"),
        vectors={STATE: ("a", "b"), ENVIRONMENT: ("x",)},
        cameras={TOP: (480, 640, 3)},
        fps=25.0,
        policy_type="act",
        robot_type="so101",
    )
    assert (found.source, found.warnings) == ("lefleet.json", ())


def test_the_dataset_of_the_training_knows(tmp_path):
    found = find(trained_on(tmp_path, tmp_path / "data"), config(TOP))
    assert found.contract.vectors == {STATE: ("a", "b"), ENVIRONMENT: ("x",)}
    assert (found.contract.fps, found.contract.robot_type) == (15.0, "so101")
    assert found.contract.cameras == {TOP: (480, 640, 3)}
    assert found.source == str(tmp_path / "data" / "meta" / "info.json")


def test_a_config_with_names_of_actions_leaves_the_rest_to_others(tmp_path):
    policy = config(names=["a", "b"])
    with pytest.raises(BadInput, match=f"contract.vectors.{STATE}: the names .* are unknown"):
        find(tmp_path, policy)
    found = find(tmp_path, policy, msgspec.structs.replace(SAID, action_names=()))
    assert found.contract.action_names == ("a", "b")
    assert found.source == "config.json and the manifest"


def test_the_manifest_comes_last_and_has_no_cameras_to_name(tmp_path):
    found = find(tmp_path, config(TOP), SAID)
    assert found.contract.cameras == {TOP: (48, 64, 3)}
    assert (found.source, found.warnings) == ("the manifest", ())


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"action_names": ("b", "a")}, "action_names"),
        ({"vectors": {STATE: ("b", "a")}}, f"vectors.{STATE}"),
        ({"fps": 30}, "fps"),
        ({"cameras": {TOP: (1, 2, 3)}}, f"cameras.{TOP}"),
    ],
)
def test_a_manifest_that_contradicts_a_better_source_is_refused(tmp_path, said, field):
    beside_weights(tmp_path)
    with pytest.raises(BadInput, match=f"contract.{field}: the manifest says .*, lefleet.json"):
        find(tmp_path, config(TOP), ContractOverride(**said))


def test_a_manifest_may_repeat_what_is_known(tmp_path):
    repeated = ContractOverride(action_names=("a", "b"), fps=25)
    assert find(beside_weights(tmp_path), config(TOP), repeated).source == "lefleet.json"


def test_without_any_source_order_must_be_trusted_explicitly(tmp_path):
    with pytest.raises(BadInput, match=r"contract.action_names: .* unknown.*trust_order: true"):
        find(tmp_path, config())
    found = find(tmp_path, config(), trust_order=True)
    assert found.contract.action_names == ("0", "1")
    assert found.contract.vectors == {STATE: ("0", "1"), ENVIRONMENT: ("0",)}
    assert found.source == "trust_order"
    assert "trusted, not known" in found.warnings[0]


def test_trust_where_everything_is_known_is_no_warning(tmp_path):
    assert find(beside_weights(tmp_path), config(TOP), trust_order=True).warnings == ()


def test_columns_that_the_dataset_does_not_name_are_unknown(tmp_path):
    trained_on(tmp_path, tmp_path / "data", **{ENVIRONMENT: None})
    with pytest.raises(BadInput, match=f"contract.vectors.{ENVIRONMENT}: .* unknown"):
        find(tmp_path, config(TOP))


def test_a_dataset_that_is_gone_is_no_source(tmp_path):
    trained_on(tmp_path, tmp_path / "data")
    (tmp_path / "data" / "meta" / "info.json").unlink()
    with pytest.raises(BadInput, match="unknown"):
        find(tmp_path, config(TOP))


def test_a_speed_that_is_unknown_is_asked_for(tmp_path):
    with pytest.raises(BadInput, match=r"contract\.fps: .* unknown"):
        find(tmp_path, config(), msgspec.structs.replace(SAID, fps=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action_names": ("a",)}, "action_names: lefleet.json has 1 names, the policy's action"),
        ({"vectors": {STATE: ("a", "b", "c"), ENVIRONMENT: ("x",)}}, f"{STATE}: .* has 3 names"),
        ({"action_names": ("a", "a")}, "action_names: a name is there twice"),
        ({"action_names": ("a", "")}, "contract: .*length"),
        ({"cameras": {WRIST: (480, 640, 3)}}, "cameras: the policy takes observation.images.top"),
    ],
)
def test_a_contract_that_does_not_fit_the_policy_is_refused(tmp_path, changes, message):
    beside_weights(tmp_path, **changes)
    with pytest.raises(BadInput, match=message):
        find(tmp_path, config(TOP))


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "lefleet.json").write_text('{"fps": "fast"}')
    with pytest.raises(BadInput, match=r"lefleet\.json"):
        find(tmp_path, config(TOP))


def test_keys_are_the_policys_own_where_the_training_renamed_them(tmp_path):
    found = find(beside_weights(tmp_path), config(WRIST), rename_map={TOP: WRIST})
    assert found.contract.cameras == {WRIST: (480, 640, 3)}


def test_cameras_that_the_training_did_not_have_are_not_asked_for(tmp_path):
    policy = config(TOP, WRIST, "observation.images.empty_camera_0")
    assert set(find(beside_weights(tmp_path), policy).contract.cameras) == {TOP}
    assert set(find(tmp_path.parent, policy, SAID).contract.cameras) == {TOP, WRIST}


@pytest.mark.parametrize("shape", [(3, 48, 64), (48, 64, 3)])
def test_shapes_of_images_are_height_width_channels(shape):
    assert height_width_channels(shape) == (48, 64, 3)
