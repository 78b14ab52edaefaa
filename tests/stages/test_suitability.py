"""What a dataset's statistics say about a training, before it starts."""

import json
import math

import pytest

from lefleet.errors import BadInput
from lefleet.records import TrainRequest
from lefleet.stages.contract import SIMULATED_INFO
from lefleet.stages.suitability import LARGEST_UNSCALED, assess, read_statistics

NAMES = ["pan.pos", "lift.pos", "gripper.pos"]
VECTOR = {"dtype": "float32", "shape": [3], "names": NAMES}
IMAGE = {"dtype": "video", "shape": [24, 32, 3], "names": ["height", "width", "channels"]}
INFO = {
    "robot_type": "so101_follower",
    "total_frames": 100,
    "features": {"action": VECTOR, "observation.state": VECTOR},
}
DEGREES = {
    "min": [-90.0, 0.0, 0.0],
    "max": [90.0, 45.0, 100.0],
    "mean": [1.0, 20.0, 50.0],
    "std": [40.0, 10.0, 30.0],
    "q01": [-80.0, 1.0, 0.0],
    "q99": [80.0, 44.0, 100.0],
    "count": [100],
}


def changed(column: int, **values: float) -> dict[str, list[float]]:
    """Statistics of which one column differs."""
    new = {name: list(numbers) for name, numbers in DEGREES.items()}
    for name, value in values.items():
        new[name][column] = value
    return new


STILL = changed(1, min=12.3, max=12.3, mean=12.3, std=0.0, q01=12.3, q99=12.3)


TOP = "observation.images.top"
CAMERA = {"dtype": "video", "shape": [48, 64, 3], "names": None}
SEEING = ("pi05", "xvla")
"""Families that cannot be trained without a camera."""


@pytest.fixture
def judged(tmp_path):
    """The dataset with these statistics for a training with these settings."""

    def judge(state=DEGREES, action=DEGREES, info=INFO, checkpoint=None, **changes):
        (tmp_path / "meta").mkdir(exist_ok=True)
        stats = {"observation.state": state, "action": action}
        if changes.get("policy_type") in SEEING:
            info = {**info, "features": info["features"] | {TOP: CAMERA}}
            stats[TOP] = {"mean": [0.5]}
        kept = {key: value for key, value in stats.items() if value is not None}
        (tmp_path / "meta" / "stats.json").write_text(json.dumps(kept))
        return assess(TrainRequest(dataset="d", **changes), info, tmp_path, checkpoint)

    return judge


def refusal(found) -> str:
    (one,) = found.refusals
    assert one.remedy
    return one.problem


def test_ordinary_data_is_suitable(judged):
    found = judged()
    assert (found.refusals, found.notes, found.corrections) == ((), (), {})
    found.require("dataset")
    assert found.normalisation.mapping["STATE"] == "MEAN_STD"


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("mode", ["MEAN_STD", "IDENTITY"])
def test_values_that_are_not_finite_are_refused_by_name(judged, value, mode):
    mapping = json.dumps({"STATE": mode, "ACTION": "MEAN_STD"})
    state = {name: [number / 90 for number in values] for name, values in DEGREES.items()}
    state["max"][2] = value
    found = judged(state, policy={"normalization_mapping": mapping})
    assert refusal(found).startswith("observation.state: gripper.pos holds values that are not")
    with pytest.raises(BadInput, match=r"^dataset: observation.state: gripper.pos"):
        found.require("dataset")


@pytest.mark.parametrize(
    ("family", "state", "lacks"),
    [
        ("act", None, "no statistics"),
        ("act", {"min": [0.0] * 3, "max": [1.0] * 3}, "no mean, std"),
        ("pi05", {name: DEGREES[name] for name in ("mean", "std", "min", "max")}, "no q01, q99"),
        ("diffusion", {"mean": [0.0] * 3, "std": [1.0] * 3}, "no min, max"),
    ],
)
def test_missing_statistics_are_refused_with_the_command_that_makes_them(
    judged, tmp_path, family, state, lacks
):
    found = judged(state, policy_type=family)
    assert f"observation.state: meta/stats.json has {lacks} of it" in refusal(found)
    assert f"--root {tmp_path}" in found.refusals[0].remedy


def test_statistics_of_another_width_are_refused(judged):
    short = {name: values[:2] for name, values in DEGREES.items() if name != "count"}
    assert "2 values of min for 3 columns" in refusal(judged(short))


def test_no_statistics_at_all_are_refused(tmp_path):
    found = assess(TrainRequest(dataset="d"), INFO, tmp_path, None)
    assert [one.problem.partition(":")[0] for one in found.refusals] == [
        "action",
        "observation.state",
    ]
    with pytest.raises(BadInput, match="1 more"):
        found.require("dataset")


def test_an_action_that_never_changes_is_refused(judged):
    still = {"min": [5.0] * 3, "max": [5.0] * 3, "mean": [5.0] * 3, "std": [0.0] * 3}
    for mapping in ({}, {"normalization_mapping": '{"ACTION": "IDENTITY", "STATE": "MEAN_STD"}'}):
        assert refusal(judged(action=still, policy=mapping)).startswith("action: no column ever")


@pytest.mark.parametrize("feature", ["observation.state", "action"])
@pytest.mark.parametrize(
    ("family", "corrections"),
    [
        ("act", {"std": {1: 1.0}}),
        ("diffusion", {"min": {1: 11.3}, "max": {1: 13.3}}),
        ("pi05", {"q01": {1: 11.3}, "q99": {1: 13.3}}),
    ],
)
def test_a_column_that_never_changes_is_centred_and_not_scaled(
    judged, feature, family, corrections
):
    side = "state" if feature == "observation.state" else "action"
    found = judged(**{side: STILL}, policy_type=family)
    assert found.refusals == ()
    assert found.normalisation.unscaled == {feature: ("lift.pos",)}
    (note,) = found.notes
    assert note.startswith(f"{feature}: lift.pos never changes")
    (names,) = found.corrections.values()
    assert {name: pytest.approx(columns) for name, columns in corrections.items()} == names


@pytest.mark.parametrize(
    ("value", "rounding", "std"), [(12.345678, 9e-7, 0.01), (90.0, 4e-5, 1e-7), (0.0, 0.0, 0.0)]
)
def test_a_spread_that_is_only_rounding_counts_as_none(judged, value, rounding, std):
    nearly = changed(1, min=value - rounding, max=value + rounding, mean=value, std=std)
    assert judged(nearly).corrections == {"observation.state": {"std": {1: 1.0}}}


def test_a_column_in_small_units_keeps_its_scale(judged):
    metres = changed(1, min=-0.0005, max=0.0005, mean=0.0, std=0.0002)
    assert judged(metres).corrections == {}


def test_a_column_that_moves_outside_the_quantiles_only_is_scaled_by_its_range(judged):
    rare = changed(2, q01=0.0, q99=0.0, min=0.0, max=100.0)
    found = judged(rare, policy_type="pi05")
    assert found.corrections == {"observation.state": {"q01": {2: 0.0}, "q99": {2: 100.0}}}
    assert found.normalisation.unscaled == {}
    (note,) = found.notes
    assert note.startswith("observation.state: gripper.pos moves, but q01 and q99 do not show it")


def test_a_deviation_that_was_lost_to_rounding_is_replaced_by_the_range(judged):
    large = changed(1, min=999.9, max=1000.3, mean=1000.0, std=0.0)
    assert judged(large).corrections == {"observation.state": {"std": {1: pytest.approx(0.1)}}}


def test_a_column_that_hardly_moves_is_mentioned(judged):
    found = judged(changed(1, min=12.2, max=12.4, mean=12.3, std=0.04))
    (note,) = found.notes
    assert note.startswith("observation.state: lift.pos moves less than a hundredth")
    assert found.corrections == {}


IDENTITY = json.dumps(dict.fromkeys(("STATE", "ACTION", "ENV", "VISUAL"), "IDENTITY"))


def test_degrees_are_refused_where_nothing_scales_them(judged):
    first, second = judged(policy={"normalization_mapping": IDENTITY}).refusals
    assert first.problem.startswith("action: pan.pos, lift.pos, gripper.pos goes from -90 to 90")
    assert second.problem.startswith("observation.state: ")
    assert "Leave policy.normalization_mapping out" in first.remedy


def test_values_up_to_the_limit_may_stay_as_they_are(judged):
    scale = LARGEST_UNSCALED / 100
    small = {name: [scale * number for number in values] for name, values in DEGREES.items()}
    assert judged(small, small, policy={"normalization_mapping": IDENTITY}).refusals == ()


def test_a_checkpoint_of_the_simulation_is_not_continued_on_degrees(judged):
    checkpoint = {"type": "act", "normalization_mapping": json.loads(IDENTITY)}
    found = judged(checkpoint=checkpoint, init="c")
    assert len(found.refusals) == 2
    assert "train without init" in found.refusals[0].remedy


def test_a_family_that_takes_values_as_they_are_is_only_mentioned(judged):
    found = judged(policy_type="xvla")
    assert found.refusals == ()
    assert all("xvla takes it as it is" in note for note in found.notes)


def test_the_simulation_s_own_data_is_never_measured_by_the_limit(tmp_path):
    (tmp_path / "meta").mkdir()
    stats = {
        key: {"min": [-50.0] * one["shape"][0], "max": [50.0] * one["shape"][0]}
        for key, one in SIMULATED_INFO["features"].items()
    }
    (tmp_path / "meta" / "stats.json").write_text(json.dumps(stats))
    found = assess(TrainRequest(dataset="d"), SIMULATED_INFO, tmp_path, None)
    assert (found.refusals, found.corrections) == ((), {})


def test_a_camera_without_statistics_is_refused(judged):
    info = INFO | {"features": INFO["features"] | {"observation.images.top": IMAGE}}
    assert refusal(judged(info=info)).startswith("observation.images.top: ")


def test_data_without_frames_or_action_is_refused(judged):
    info = {"total_frames": 0, "features": {"observation.state": VECTOR}}
    problems = [one.problem for one in judged(info=info).refusals]
    assert problems == ["the dataset has no frames.", "the dataset has no action."]


def test_an_action_under_another_name_is_refused(judged):
    info = INFO | {"features": {"actions": VECTOR, "observation.state": VECTOR}}
    assert "the dataset has no action." in [one.problem for one in judged(info=info).refusals]


def test_an_action_without_columns_is_refused(judged):
    nothing = {"dtype": "float32", "shape": [0], "names": []}
    info = INFO | {"features": INFO["features"] | {"action": nothing}}
    empty = {name: [] for name in DEGREES}
    assert refusal(judged(action=empty, info=info)).startswith("action: no column ever changes")


def test_statistics_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "stats.json").write_text('{"action": [1, 2]}')
    with pytest.raises(BadInput, match=r"stats.json: it cannot be read"):
        read_statistics(tmp_path)
