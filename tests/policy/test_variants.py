"""Adapters, compiled policies and processors with a mind of their own."""

import json
import shutil
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.processor import ObservationProcessorStep, ProcessorStepRegistry

from lefleet.errors import BadInput
from lefleet.policy import load_policy
from tests.policy import tiny
from tests.policy.asking import ask, request_for, same
from tests.policy.tiny import model


@pytest.fixture(scope="module")
def adapter(checkpoint_of, tmp_path_factory) -> Path:
    pytest.importorskip("peft", reason="lerobot[peft] is not in the lock: it slows every import")
    folder = tmp_path_factory.mktemp("adapter")
    return tiny.act_adapter(folder, checkpoint_of("act_environment"))


def test_an_adapter_in_the_checkpoints_folder_is_put_on_its_base(adapter, policy_of):
    from lerobot.rollout.context import _load_pretrained_policy

    served, plain = load_policy(model(adapter)), policy_of("act_environment")
    request = request_for(served)
    chunk = ask(served, request)
    assert not same(chunk, ask(plain, request))
    assert served.digest != plain.digest

    config = PreTrainedConfig.from_pretrained(adapter)
    config.pretrained_path = adapter
    batch = served.new_pipeline().prepare(request).batches[-1]
    own = _load_pretrained_policy(config).eval().predict_action_chunk(batch)
    assert chunk.model.tobytes() == own[0].detach().numpy().tobytes()


def test_an_adapter_elsewhere_is_put_on_the_checkpoint(adapter, checkpoint_of):
    inside = load_policy(model(adapter))
    given = load_policy(model(checkpoint_of("act_environment"), peft=str(adapter)))
    request = request_for(inside)
    assert same(ask(inside, request), ask(given, request))
    assert given.capabilities.serving_mode == "shared"


def test_an_adapter_without_its_base_is_refused(adapter, tmp_path):
    shutil.copytree(adapter, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "/gone"}))
    with pytest.raises(BadInput, match="base of the adapter: /gone does not exist"):
        load_policy(model(tmp_path))


@pytest.mark.skipif(find_spec("peft") is not None, reason="for machines without peft")
def test_without_peft_an_adapter_is_refused_with_what_to_install(checkpoint_of, tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    settings = model(checkpoint_of("act_environment"), peft=str(tmp_path))
    with pytest.raises(BadInput, match=r"lerobot\[peft\]"):
        load_policy(settings)


def test_a_compiled_policy_answers_the_same_up_to_rounding(checkpoint_of, policy_of, monkeypatch):
    """Traced as in earnest; generating code for it would take two minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    exact = policy_of("unlisted")
    served = load_policy(model(checkpoint_of("unlisted"), compile=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    request = request_for(exact)
    assert ask(served, request).robot == pytest.approx(ask(exact, request).robot, abs=1e-4)


@ProcessorStepRegistry.register("tests_shared_memory")
@dataclass
class SharedMemoryStep(ObservationProcessorStep):
    """Adds the last state that any robot had: copies of it share their class."""

    last: ClassVar[torch.Tensor] = torch.zeros(3)

    def observation(self, observation):
        state = observation[tiny.STATE]
        changed = state + SharedMemoryStep.last
        SharedMemoryStep.last = state.clone()
        return observation | {tiny.STATE: changed}

    def transform_features(self, features):
        return features


def test_processors_that_share_what_they_remember_are_caught(checkpoint_of, tmp_path):
    shutil.copytree(checkpoint_of("act_environment"), tmp_path, dirs_exist_ok=True)
    file = tmp_path / "policy_preprocessor.json"
    pipeline = json.loads(file.read_text())
    pipeline["steps"].insert(2, {"registry_name": "tests_shared_memory", "config": {}})
    file.write_text(json.dumps(pipeline))
    assert load_policy(model(tmp_path)).capabilities.serving_mode == "exclusive"
    with pytest.raises(BadInput, match="this act cannot be shared: the same request"):
        load_policy(model(tmp_path), serving_mode="shared")


def test_keys_that_the_training_renamed_are_the_policys_own(checkpoint_of, policy_of, tmp_path):
    """LeRobot saves the map with the processor; a robot is asked for the policy's keys."""
    shutil.copytree(checkpoint_of("act_images"), tmp_path, dirs_exist_ok=True)
    file = tmp_path / "policy_preprocessor.json"
    pipeline = json.loads(file.read_text())
    swapped = {tiny.TOP: tiny.WRIST, tiny.WRIST: tiny.TOP}
    pipeline["steps"][0]["config"]["rename_map"] = swapped
    file.write_text(json.dumps(pipeline))
    served = load_policy(model(tmp_path))
    request = request_for(served)
    assert same(ask(served, request), ask(policy_of("act_images"), request))
