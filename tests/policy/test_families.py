"""Every policy of LeRobot has an entry, and the entry is true of its code."""

import inspect
from types import SimpleNamespace

import lerobot.policies
import pytest
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class

from lefleet.policy.families import LEROBOT, Family, family_of, vouch


def config(policy_type: str, **settings) -> SimpleNamespace:
    usual = {"n_obs_steps": 1, "temporal_ensemble_coeff": None, "per_episode_seed": False}
    return SimpleNamespace(type=policy_type, **usual | settings)


def test_every_family_of_lerobot_has_an_entry_and_no_other():
    """A new one must be read before it is served."""
    registered = {
        name
        for name, kind in PreTrainedConfig.get_known_choices().items()
        if kind.__module__.startswith(f"{lerobot.policies.__name__}.")
    }
    assert registered == set(LEROBOT)


@pytest.mark.parametrize("name", LEROBOT)
def test_every_entry_says_why(name):
    assert len(LEROBOT[name].reason.split()) > 5


@pytest.mark.parametrize("name", [name for name, one in LEROBOT.items() if one.feed == "present"])
def test_families_that_are_asked_with_one_observation_keep_no_queue_of_them(name):
    """`stack` over queues in the chunk API is how others read what select_action left there."""
    if LEROBOT[name].sharing == "refused":
        return
    policy = get_policy_class_or_skip(name)
    assert "_obs_buffer" not in inspect.getsource(policy.reset)
    assert "maxlen=self.config.n_obs_steps" not in inspect.getsource(policy.reset)


@pytest.mark.parametrize("name", [name for name, one in LEROBOT.items() if one.feed == "queues"])
def test_families_with_queues_have_them_under_the_name_that_is_used(name):
    source = inspect.getsource(get_policy_class_or_skip(name))
    assert "populate_queues(self._queues, batch)" in source
    assert "self._queues = {" in source


def get_policy_class_or_skip(name: str) -> type:
    try:
        return get_policy_class(name)
    except ImportError as error:
        pytest.skip(f"{name}: {error}")


def test_what_gaussian_actor_has_in_its_place_raises():
    source = inspect.getsource(get_policy_class("gaussian_actor").predict_action_chunk)
    assert "raise NotImplementedError" in source
    assert family_of(config("gaussian_actor")).sharing == "refused"


@pytest.mark.parametrize(
    ("name", "settings", "sharing"),
    [
        ("act", {}, "shared"),
        ("act", {"temporal_ensemble_coeff": 0.01}, "refused"),
        ("diffusion", {"n_obs_steps": 2}, "shared"),
        ("vqbet", {"n_obs_steps": 5}, "exclusive"),
        ("smolvla", {}, "shared"),
        ("smolvla", {"n_obs_steps": 2}, "refused"),
        ("molmoact2", {}, "shared"),
        ("molmoact2", {"per_episode_seed": True}, "exclusive"),
        ("lingbot_va", {}, "exclusive"),
        ("never_heard_of", {}, "exclusive"),
        ("never_heard_of", {"n_obs_steps": 2}, "refused"),
    ],
)
def test_settings_of_a_policy_decide_too(name, settings, sharing):
    assert family_of(config(name, **settings)).sharing == sharing


def test_lerobots_own_policies_cannot_be_vouched_for():
    with pytest.raises(ValueError, match="vqbet is a policy of LeRobot"):
        vouch("vqbet", Family("shared", "because"))
