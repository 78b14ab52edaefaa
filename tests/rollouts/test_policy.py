import json
import shutil

import numpy as np

from lefleet.rollouts.policy import BatchPolicy
from lefleet.sim.encode import encode
from lefleet.stages.references import find_checkpoint


def observe(raw):
    encoded = encode(raw, "push")
    return {"agent_pos": encoded.state, "environment_state": encoded.environment}


def test_a_policy_downloads_no_weights_of_its_backbone(checkpoint, tmp_path):
    """An evaluation without a network; a policy without cameras has the setting too."""
    folder = tmp_path / "pretrained_model"
    shutil.copytree(find_checkpoint(str(checkpoint), "checkpoint").path, folder)
    config = json.loads((folder / "config.json").read_bytes())
    config["pretrained_backbone_weights"] = "ResNet18_Weights.IMAGENET1K_V1"
    (folder / "config.json").write_text(json.dumps(config))
    loaded = BatchPolicy(str(folder), "cpu")._policy.config
    assert loaded.pretrained_backbone_weights is None


def test_an_action_depends_neither_on_the_neighbours_nor_on_the_row(checkpoint):
    """The claim behind resuming and pairing: an episode computes the same in any company."""
    policy = BatchPolicy(find_checkpoint(str(checkpoint), "checkpoint").path, "cpu")
    random = np.random.default_rng(0)
    observations = [observe(random.normal(0.3, 0.2, 39)) for _ in range(15)]
    policy.reset(0)
    together = policy.act(observations, ["t"] * 15)
    order = random.permutation(15)
    policy.reset(0)
    shuffled = policy.act([observations[i] for i in order], ["t"] * 15)
    assert np.array_equal(together[order], shuffled)
    policy.reset(0)
    alone = policy.act([observations[4]] * 15, ["t"] * 15)
    assert np.array_equal(alone[4], together[4])
