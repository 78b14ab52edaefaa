"""What columns and tasks mean, and what is refused because policy, data or simulation disagree."""

import json

import pytest

from lefleet.errors import BadInput
from lefleet.sim.encode import FPS, ROBOT_TYPE
from lefleet.sim.render import ImageSize
from lefleet.stages.cameras import camera_features
from lefleet.stages.contract import (
    FEATURES,
    contract_of,
    read_info,
    require_coverage,
    require_same_shape,
    require_simulable,
    task_name,
    task_text,
    wanted_texts,
)
from lefleet.stages.references import CheckpointReference
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
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"fps": 5, "features": FEATURES}))
    assert read_info(tmp_path)["fps"] == 5


@pytest.mark.parametrize(
    "content",
    ["{", "{}", "[1]", '{"features": 1}', '{"features": {"action": {"dtype": "float32"}}}', None],
)
def test_a_description_that_cannot_be_used_is_refused(tmp_path, content):
    (tmp_path / "meta").mkdir()
    if content is not None:
        (tmp_path / "meta" / "info.json").write_text(content)
    with pytest.raises(BadInput, match=r"cannot be read as a LeRobotDataset: meta/info\.json"):
        read_info(tmp_path)


SIMULATED = {"robot_type": ROBOT_TYPE}
MINE = {"robot_type": "so101"}


def test_a_task_of_the_simulation_stands_in_its_data_as_its_instruction():
    assert task_text("push") == PUSH
    assert task_text("push-v3") == PUSH
    assert task_name(PUSH, SIMULATED) == "push"


def test_a_text_of_the_datasets_own_stands_for_itself():
    assert task_text("fold the towel") == "fold the towel"
    assert task_name("fold the towel", SIMULATED) == "fold the towel"


def test_a_set_stands_for_its_members_and_repeats_count_once():
    texts = wanted_texts(["easy3", "push", "fold the towel"], SIMULATED)
    assert texts == (PUSH, "carry the puck to the goal", DOOR, "fold the towel")


@pytest.mark.parametrize("text", ["open the drawer", "drawer-open", "push", "all", "Easy3"])
@pytest.mark.parametrize("info", [MINE, {}, {"robot_type": None}])
def test_words_of_other_data_are_never_translated(text, info):
    assert wanted_texts([text, text], info) == (text,)
    assert task_name(text, info) == text
    require_coverage({text: 1}, [text], "runs/demos", info)


def test_data_that_has_every_task_is_accepted():
    available = {PUSH: 1, DOOR: 2, "more": 3}
    require_coverage(available, ["push", "door-open"], "runs/demos", SIMULATED)


def test_wanted_tasks_may_come_after_any_number_of_others():
    others = {f"other task {number}": 1000 for number in range(50)}
    require_coverage(others | {PUSH: 1}, ["push"], "runs/demos", SIMULATED)


@pytest.mark.parametrize("info", [SIMULATED, MINE])
def test_nothing_wanted_is_always_covered(info):
    require_coverage({}, [], "runs/demos", info)


def test_missing_tasks_are_named_shortly_beside_what_is_there():
    available = {PUSH: 2, "fold the towel": 1}
    with pytest.raises(BadInput) as caught:
        require_coverage(available, ["push", "door-open", "reach"], "runs/demos", SIMULATED)
    assert caught.value.problem == "tasks: runs/demos has no episode of door-open, reach."
    assert caught.value.remedy.startswith("It has push (2), fold the towel (1).")


def test_missing_tasks_of_other_data_are_named_in_its_own_words():
    available = {"open the drawer": 2, PUSH: 1}
    with pytest.raises(BadInput) as caught:
        require_coverage(available, ["drawer-open", DOOR], "runs/mine", MINE)
    assert caught.value.problem == f"tasks: runs/mine has no episode of drawer-open, {DOOR}."
    assert caught.value.remedy.startswith(f"It has open the drawer (2), {PUSH} (1).")


def test_a_task_with_no_episodes_is_missing():
    with pytest.raises(BadInput, match="no episode of push"):
        require_coverage({PUSH: 0, DOOR: 1}, ["push"], "runs/demos", SIMULATED)


def test_empty_data_is_said_to_be_empty():
    with pytest.raises(BadInput, match="It has no episodes"):
        require_coverage({}, ["push"], "runs/demos", SIMULATED)


def policy(folder, inputs=None, outputs=None) -> CheckpointReference:
    inputs = {"observation.state": [4]} if inputs is None else inputs
    outputs = {"action": [4]} if outputs is None else outputs
    config = {
        "input_features": {
            key: {"shape": shape, "type": "VISUAL" if len(shape) == 3 else "STATE"}
            for key, shape in inputs.items()
        },
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
    assert require_simulable(policy(tmp_path), "checkpoint") == {}


def test_a_policy_says_itself_which_cameras_it_sees(tmp_path):
    reference = policy(tmp_path, inputs={"observation.images.top": [3, 64, 48]})
    assert require_simulable(reference, "checkpoint") == {"top": ImageSize(height=64, width=48)}


def test_a_policy_that_wants_another_shape_is_refused_naming_it(tmp_path):
    reference = policy(tmp_path, inputs={"observation.state": [14]})
    expected = (
        r"checkpoint: the policy's observation\.state has shape \[14\], the simulation's \[4\]"
    )
    with pytest.raises(BadInput, match=expected):
        require_simulable(reference, "checkpoint")


def test_a_policy_that_wants_a_camera_of_another_robot_is_refused_naming_those_here(tmp_path):
    reference = policy(tmp_path, inputs={"observation.images.wrist": [3, 64, 64]})
    expected = r"observation\.images\.wrist .* does not exist .*cameras: corner, gripper"
    with pytest.raises(BadInput, match=expected):
        require_simulable(reference, "checkpoint")


def test_a_policy_with_other_actions_is_refused(tmp_path):
    with pytest.raises(BadInput, match="baseline: the policy's action has shape"):
        require_simulable(policy(tmp_path, outputs={"action": [7]}), "baseline")


def test_data_of_the_simulation_can_be_added_to(tmp_path):
    require_same_shape(data(tmp_path).root, "demos", {})


def test_data_is_added_to_with_the_same_cameras_only(tmp_path):
    cameras = {"corner": ImageSize(96, 96)}
    root = data(tmp_path, features={**FEATURES, **camera_features(cameras)}).root
    require_same_shape(root, "demos", cameras)
    others = ({}, {"corner": ImageSize(96, 64)}, {**cameras, "top": ImageSize(96, 96)})
    for other in others:
        with pytest.raises(BadInput, match=r"differs .* observation\.images\.\w+\. Only"):
            require_same_shape(root, "demos", other)


@pytest.mark.parametrize("changes", [{"fps": 30}, {"robot_type": "so101"}])
def test_data_of_another_robot_is_refused(tmp_path, changes):
    with pytest.raises(BadInput, match=f"differs from the simulation in {next(iter(changes))}"):
        require_same_shape(data(tmp_path, **changes).root, "demos", {})


@pytest.mark.parametrize("key", FEATURES)
@pytest.mark.parametrize("change", [{"shape": [1]}, {"dtype": "float64"}, {"names": ["a"]}])
def test_data_of_another_shape_is_refused_naming_the_feature(tmp_path, key, change):
    with pytest.raises(BadInput, match=f"differs from the simulation in {key}"):
        require_same_shape(data(tmp_path, key, change).root, "demos", {})


def test_data_with_a_further_observation_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"observation\.force"):
        require_same_shape(data(tmp_path, "observation.force").root, "demos", {})
