"""The step that makes an environment state, as LeRobot's own programs find and use it."""

import subprocess
import sys

import torch
from lerobot.configs import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.lerobot_types import TransitionKey
from lerobot.processor import ProcessorStepRegistry

from lefleet.records.checkpoint import ENVIRONMENT_STEP, made_inputs
from lerobot_policy_lefleet import environment_state
from tests.policy import tiny


def test_lefleet_calls_it_by_the_name_that_is_registered():
    assert environment_state.ENVIRONMENT_STEP == ENVIRONMENT_STEP
    assert ProcessorStepRegistry.get(ENVIRONMENT_STEP) is environment_state.EnvironmentStateStep


def test_the_state_is_copied_and_its_feature_too():
    step = environment_state.EnvironmentStateStep()
    state = torch.tensor([[1.0, 2.0]])
    made = step({TransitionKey.OBSERVATION: {tiny.STATE: state}})[TransitionKey.OBSERVATION]
    assert torch.equal(made[tiny.ENVIRONMENT], state)
    assert torch.equal(made[tiny.STATE], state)
    observed = {tiny.STATE: PolicyFeature(FeatureType.STATE, (2,))}
    features = step.transform_features({PipelineFeatureType.OBSERVATION: observed})
    kept = features[PipelineFeatureType.OBSERVATION]
    assert kept[tiny.ENVIRONMENT] == PolicyFeature(FeatureType.ENV, (2,))
    assert tiny.ENVIRONMENT not in observed


def test_what_no_step_makes_comes_from_the_robot():
    assert made_inputs({"steps": [{"registry_name": "normalizer_processor"}]}) == frozenset()
    assert made_inputs({}) == frozenset()


def test_a_program_of_lerobot_knows_the_step_without_being_told(checkpoint_of):
    """In a process that imports nothing of lefleet: the plugin is found by its name."""
    code = f"""
import sys, torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.utils.import_utils import register_third_party_plugins

register_third_party_plugins()
folder = {str(checkpoint_of("act_state"))!r}
config = PreTrainedConfig.from_pretrained(folder)
policy = get_policy_class(config.type).from_pretrained(folder, config=config)
before, after = make_pre_post_processors(config, pretrained_path=folder)
action = after(policy.select_action(before({{"observation.state": torch.zeros(3)}})))
assert action.shape == (1, 3), action
assert "lefleet" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
