"""Names and shapes of a checkpoint's inputs and outputs."""

import json

from lefleet.stages.contract import contract_of, read_info
from tests.samples import DOOR, PUSH, dataset_record

VECTOR = {"dtype": "float32", "shape": [2], "names": ["x", "y"]}


def contract(robot_type="sawyer", **features):
    info = {"fps": 30, "robot_type": robot_type, "features": {"action": VECTOR} | features}
    return contract_of(dataset_record(), "act", info)


def test_names_in_a_list_are_taken_in_order():
    assert contract(action=VECTOR | {"names": ["b", "a"]}).action_names == ("b", "a")


def test_names_in_groups_are_taken_in_order():
    names = {"arm": ["x", "y"], "hand": ["grip"]}
    feature = {"dtype": "float32", "shape": [3], "names": names}
    assert contract(action=feature).action_names == ("x", "y", "grip")


def test_columns_without_names_are_numbered():
    assert contract(action=VECTOR | {"names": None}).action_names == ("0", "1")
    assert contract(action={"dtype": "float32", "shape": [2]}).action_names == ("0", "1")


def test_observations_are_vectors_or_cameras_and_the_rest_is_neither():
    made = contract(
        **{
            "observation.state": VECTOR,
            "observation.images.top": {"dtype": "video", "shape": [3, 48, 64]},
            "observation.images.hand": {"dtype": "image", "shape": [3, 24, 32]},
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        }
    )
    assert made.vectors == {"observation.state": ("x", "y")}
    assert made.cameras == {
        "observation.images.top": (3, 48, 64),
        "observation.images.hand": (3, 24, 32),
    }


def test_what_the_dataset_says_is_kept():
    made = contract()
    assert (made.fps, made.policy_type, made.robot_type) == (30, "act", "sawyer")
    assert made.tasks == (PUSH, DOOR)
    assert made.dataset_digest == dataset_record().digest


def test_a_dataset_that_names_no_robot_gives_an_empty_name():
    assert contract(robot_type=None).robot_type == ""


def test_info_is_read_from_the_dataset_folder(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"fps": 5}))
    assert read_info(dataset_record(root=str(tmp_path))) == {"fps": 5}
