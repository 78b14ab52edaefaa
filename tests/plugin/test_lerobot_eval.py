"""The stock lerobot-eval: a remote policy's episodes are those of the checkpoint in process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors

from lefleet.sim.encode import ACTION_NAMES, ENVIRONMENT_NAMES, STATE_NAMES
from lefleet.sim.render import OFF
from tests.plugin.conftest import served
from tests.policy import tiny

EPISODES = 3
ENVIRONMENT = {
    "env.discover_packages_path": "lefleet.sim",
    "env.type": "lefleet_metaworld",
    "env.task": "reach,push",
    "env.episode_length": "15",
    "eval.n_episodes": str(EPISODES),
    "eval.use_async_envs": "false",
    "seed": "7",
}


def metaworld_act(folder: Path) -> Path:
    """ACT with random weights and the features of LeFleet's MetaWorld."""
    config = ACTConfig(
        input_features={
            tiny.STATE: PolicyFeature(FeatureType.STATE, (len(STATE_NAMES),)),
            tiny.ENVIRONMENT: PolicyFeature(FeatureType.ENV, (len(ENVIRONMENT_NAMES),)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(ACTION_NAMES),))},
        chunk_size=6,
        n_action_steps=4,
        dim_model=16,
        n_heads=2,
        dim_feedforward=16,
        n_encoder_layers=1,
        use_vae=False,
        device="cpu",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = ACTPolicy(config)
        for parameter in policy.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    policy.save_pretrained(folder)
    for one in make_pre_post_processors(config, dataset_stats=tiny.statistics(config)):
        one.save_pretrained(folder)
    vectors = {tiny.STATE: STATE_NAMES, tiny.ENVIRONMENT: ENVIRONMENT_NAMES}
    tiny.write_contract(folder, config, action_names=ACTION_NAMES, vectors=vectors)
    return folder


def lerobot_eval(output: Path, flags: dict[str, str]) -> dict[str, dict[str, list]]:
    """What the program says of every episode, by task."""
    flags = {**ENVIRONMENT, **flags, "output_dir": str(output)}
    argv = [Path(sys.executable).parent / "lerobot-eval", *(f"--{k}={v}" for k, v in flags.items())]
    # lerobot-eval films every episode; black frames cost nothing.
    environment = os.environ | {"MUJOCO_GL": OFF}
    child = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr[-3000:]
    info = json.loads((output / "eval_info.json").read_bytes())
    kept = ("sum_rewards", "max_rewards", "successes")
    return {
        task["task_group"]: {key: task["metrics"][key] for key in kept} for task in info["per_task"]
    }


@pytest.mark.slow
def test_episodes_are_those_of_the_policy_in_process(tmp_path):
    """In process one environment at a time, remotely all at once: no row sees another's actions."""
    checkpoint = metaworld_act(tmp_path / "checkpoint")
    local = lerobot_eval(
        tmp_path / "local",
        {"policy.path": str(checkpoint), "policy.device": "cpu", "eval.batch_size": "1"},
    )
    with served(checkpoint) as place:
        remote = lerobot_eval(
            tmp_path / "remote",
            {
                "policy.type": "lefleet",
                "policy.connect": place.endpoint,
                "policy.service": "test",
                "eval.batch_size": str(EPISODES),
            },
        )
        assert place.service.status().sessions == 0, "the program left its session open"
    assert remote == local
    rewards = [reward for task in local.values() for reward in task["sum_rewards"]]
    assert len(set(rewards)) == 2 * EPISODES, "equal episodes would prove nothing"
