"""Which normalisation a training uses, and why."""

import dataclasses
import json

import lerobot.policies  # noqa: F401 - registers all families
import pytest
from lerobot.configs import PreTrainedConfig

from lefleet.errors import BadInput
from lefleet.records import Rung, TrainRequest
from lefleet.records.checkpoint import Normalisation
from lefleet.stages.contract import SIMULATED_INFO
from lefleet.stages.normalisation import (
    FAMILIES,
    STATISTICS,
    as_trained,
    choose_mapping,
    require_family,
)

VECTOR = {"dtype": "float32", "shape": [2], "names": ["a.pos", "b.pos"]}
IMAGE = {"dtype": "video", "shape": [24, 32, 3], "names": ["height", "width", "channels"]}
ARM = {
    "robot_type": "so101_follower",
    "features": {
        "action": VECTOR,
        "observation.state": VECTOR,
        "observation.environment_state": VECTOR,
    },
}
CAMERA = ARM | {
    "features": {"action": VECTOR, "observation.state": VECTOR, "observation.images.top": IMAGE}
}


def choose(info, checkpoint=None, **changes):
    return choose_mapping(TrainRequest(dataset="d", **changes), info, checkpoint)


def test_the_table_is_lerobot_s():
    every = PreTrainedConfig.get_known_choices()
    # Plugins may be imported in the same process, and need not have a mapping.
    known = {k: one for k, one in every.items() if one.__module__.startswith("lerobot.policies")}
    theirs = {}
    for name, family in known.items():
        fields = {field.name: field for field in dataclasses.fields(family)}
        mapping = fields["normalization_mapping"].default_factory()
        theirs[name] = {kind: mode.value for kind, mode in mapping.items()}
    assert theirs == FAMILIES


def test_data_of_the_simulation_is_scaled_already():
    chosen = choose(SIMULATED_INFO)
    assert set(chosen.mapping.values()) == {"IDENTITY"}
    assert json.loads(chosen.flag) == chosen.mapping
    assert "simulation" in chosen.reason


def test_a_family_without_a_small_policy_keeps_its_own_mapping_in_the_simulation():
    chosen = choose(SIMULATED_INFO, policy_type="diffusion")
    assert (chosen.mapping, chosen.flag) == (FAMILIES["diffusion"], "")


@pytest.mark.parametrize(
    "changes",
    [
        {"robot_type": "so101_follower"},
        {"features": SIMULATED_INFO["features"] | {"action": VECTOR}},
        {"features": SIMULATED_INFO["features"] | {"observation.torque": VECTOR}},
    ],
)
def test_what_only_looks_like_the_simulation_gets_statistics(changes):
    assert choose(SIMULATED_INFO | changes).mapping["STATE"] == "MEAN_STD"


def test_other_data_gets_the_family_s_mapping_and_one_for_the_environment_state():
    chosen = choose(ARM)
    assert chosen.mapping == dict.fromkeys(("VISUAL", "STATE", "ACTION", "ENV"), "MEAN_STD")
    assert json.loads(chosen.flag) == chosen.mapping
    assert "the default of act" in chosen.reason


def test_a_mapping_that_lerobot_has_already_is_not_repeated():
    chosen = choose(CAMERA)
    assert (chosen.mapping, chosen.flag) == (FAMILIES["act"], "")


def test_a_user_s_mapping_counts_wherever_it_is_given():
    mine = '{"STATE": "MIN_MAX", "ACTION": "IDENTITY"}'
    for changes in (
        {"policy": {"normalization_mapping": mine}},
        {"extra_args": (f"--policy.normalization_mapping={mine}",)},
    ):
        chosen = choose(ARM, {"normalization_mapping": {}}, **changes)
        assert chosen.mapping == {"STATE": "MIN_MAX", "ACTION": "IDENTITY"}
        assert (chosen.reason, chosen.flag) == ("set by policy.normalization_mapping", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("MEAN_STD", "is no mapping"),
        ('{"STATE": ', "is no mapping"),
        ('{"STATES": "MEAN_STD"}', "'STATES' is no type"),
        ('{"STATE": "STD"}', "'STD' is no mode"),
    ],
)
def test_a_mapping_that_lerobot_would_not_read_is_refused(given, said):
    with pytest.raises(BadInput, match=rf"^policy.normalization_mapping: .*{said}") as caught:
        choose(ARM, policy={"normalization_mapping": given})
    assert all(mode in caught.value.remedy for mode in STATISTICS)


def test_a_checkpoint_brings_its_own_mapping():
    chosen = choose(ARM, {"type": "act", "normalization_mapping": {"STATE": "IDENTITY"}})
    assert (chosen.mapping, chosen.flag) == ({"STATE": "IDENTITY"}, "")
    assert "checkpoint" in chosen.reason


def test_families_that_do_not_exist_are_refused_with_those_that_do():
    with pytest.raises(BadInput, match=r"^policy_type: .*'nonsense'") as caught:
        require_family(Rung(name="a", policy_type="nonsense"))
    assert all(name in caught.value.remedy for name in FAMILIES)


def test_a_plugin_s_family_is_left_to_lerobot():
    rung = Rung(
        name="a", policy_type="mine", extra_args=("--policy.discover_packages_path=my.policies",)
    )
    require_family(rung)
    assert not choose_mapping(rung, ARM, None).is_known


@pytest.mark.parametrize("planned", [{}, {"STATE": "MIN_MAX"}])
def test_the_mapping_of_the_trained_policy_completes_the_planned_one(planned):
    """A plugin brings its own, and the policy for a state alone has one more."""
    config = {"normalization_mapping": {"STATE": "MIN_MAX", "ENV": "MIN_MAX"}}
    found = as_trained(Normalisation(mapping=planned, reason="why"), config)
    assert found == Normalisation(mapping=config["normalization_mapping"], reason="why")
