"""One batch of episodes twice, step by step: by LeRobot's own `rollout`, and by the engine."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from lerobot.configs import FeatureType, PolicyFeature, PreTrainedConfig
from lerobot.envs.factory import make_env, make_env_pre_post_processors
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_policy, make_pre_post_processors
from lerobot.scripts.lerobot_eval import rollout

from lefleet.rollouts import Act, EpisodeBatch, Finished, PlannedEpisode
from lefleet.rollouts.environments import describe_environment, make_environment
from lefleet.rollouts.gym_world import GymWorld
from lefleet.rollouts.metaworld import MetaWorld
from lefleet.rollouts.policy import BatchPolicy
from lefleet.rollouts.worker import Engine
from lefleet.stages.cameras import seen_cameras


class Steps(NamedTuple):
    """One episode, step by step."""

    observation: dict[str, np.ndarray]
    """The first one, as LeRobot names it."""
    actions: np.ndarray
    rewards: np.ndarray
    length: int
    success: bool


def tiny_act(folder: Path, env: dict[str, str], low: float, high: float) -> Path:
    """Random weights for this environment; its actions are spread over the range."""
    offered = describe_environment(env)
    kinds = {"observation.state": FeatureType.STATE}
    kinds |= {"observation.environment_state": FeatureType.ENV}
    config = ACTConfig(
        input_features={
            key: PolicyFeature(kinds.get(key, FeatureType.VISUAL), shape)
            for key, shape in offered.observations.items()
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (offered.action,))},
        pretrained_backbone_weights=None,
        chunk_size=8,
        n_action_steps=5,
        dim_model=16,
        n_heads=2,
        dim_feedforward=16,
        n_encoder_layers=1,
        n_decoder_layers=1,
        use_vae=False,
        device="cpu",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = ACTPolicy(config)
        for name, parameter in policy.named_parameters():
            if "backbone" not in name:
                torch.nn.init.normal_(parameter, std=0.5)
    policy.save_pretrained(folder)
    before, after = make_pre_post_processors(config, dataset_stats=_statistics(config, low, high))
    before.save_pretrained(folder)
    after.save_pretrained(folder)
    return folder


def _statistics(config: ACTConfig, low: float, high: float) -> dict:
    found = {}
    for key, feature in {**config.input_features, **config.output_features}.items():
        size = feature.shape[0]
        shape = (size, 1, 1) if feature.type is FeatureType.VISUAL else (size,)
        of = (0.0, 1.0) if feature.type is FeatureType.VISUAL else (low, high)
        middle, half = torch.full(shape, sum(of) / 2), torch.full(shape, (of[1] - of[0]) / 4)
        found[key] = {"mean": middle, "std": half, "min": middle - half, "max": middle + half}
    return found


def theirs(env: dict[str, str], checkpoint: Path, seeds: list[int]) -> list[Steps]:
    """Episodes of the first task, all in one vector environment."""
    config = make_environment(env).config
    vector = next(iter(next(iter(make_env(config, n_envs=len(seeds)).values())).values()))
    policy_config = PreTrainedConfig.from_pretrained(checkpoint)
    policy_config.pretrained_path = checkpoint
    policy_config.device = "cpu"
    policy = make_policy(policy_config, env_cfg=config).eval()
    torch.manual_seed(seeds[0])
    told = rollout(
        vector,
        policy,
        *make_env_pre_post_processors(config, policy_config),
        *make_pre_post_processors(policy_config, pretrained_path=checkpoint),
        seeds=seeds,
        return_observations=True,
    )
    vector.close()
    lengths = (torch.argmax(told["done"].int(), dim=1) + 1).tolist()
    return [
        Steps(
            {key: value[row, 0].numpy() for key, value in told["observation"].items()},
            told["action"][row, :length].numpy(),
            told["reward"][row, :length].numpy(),
            length,
            bool(told["success"][row, :length].any()),
        )
        for row, length in enumerate(lengths)
    ]


class _Recorder:
    """Notes all that the engine sees and does in its worlds."""

    def __init__(self, kind: type, monkeypatch) -> None:
        self.first: dict[int, dict] = {}
        self.steps: dict[int, list[tuple[np.ndarray, float]]] = {}
        self.vectors: dict[int, gym.vector.VectorEnv] = {}
        self._seed: dict[int, int] = {}
        reset, step = kind.reset, kind.step

        def resetting(world, seed, number):
            if kind is GymWorld:
                self.vectors[id(world)] = world._vector
            self._seed[id(world)] = seed
            self.steps[seed] = []
            self.first[seed] = reset(world, seed, number)
            return self.first[seed]

        def stepping(world, action):
            outcome = step(world, action)
            self.steps[self._seed[id(world)]].append((action.copy(), outcome.reward))
            return outcome

        monkeypatch.setattr(kind, "reset", resetting)
        monkeypatch.setattr(kind, "step", stepping)


def ours(
    env: dict[str, str], checkpoint: Path, seeds: list[int], monkeypatch, *, is_own: bool = False
) -> list[Steps]:
    """The same episodes in the same rows of one batch of the engine; `is_own`: in LeFleet's own
    simulation, with what the policy sees and these flags say."""
    from lerobot.envs.utils import preprocess_observation

    task = env["task"] if is_own else next(iter(describe_environment(env).tasks))
    recorder = _Recorder(MetaWorld if is_own else GymWorld, monkeypatch)
    episodes = tuple(
        PlannedEpisode(row=row, task=task, seed=seed, number=row) for row, seed in enumerate(seeds)
    )
    batch = EpisodeBatch(
        size=len(seeds),
        episodes=episodes,
        behaviour=Act(),
        checkpoint=str(checkpoint),
        env={} if is_own else env,
        cameras=seen_cameras(checkpoint) if is_own else {},
        episode_length=int(env["episode_length"]) if is_own else 0,
        seed=seeds[0],
    )

    def load(path, environment):
        return BatchPolicy(path, "cpu", environment)

    with closing(Engine(load)) as engine:
        finished: dict[int, Finished] = {one.seed: one for one in engine.run(batch)}
    # What renders in this process keeps others from rendering.
    for vector in recorder.vectors.values():
        vector.close()
    found = []
    for seed in seeds:
        observed = preprocess_observation(
            {name: _batched(part) for name, part in recorder.first[seed].items()}
        )
        actions, rewards = zip(*recorder.steps[seed], strict=True)
        found.append(
            Steps(
                {key: value[0].numpy() for key, value in observed.items()},
                np.stack(actions),
                np.array(rewards),
                finished[seed].length,
                finished[seed].success,
            )
        )
    return found


def _batched(part):
    if isinstance(part, dict):
        return {name: _batched(one) for name, one in part.items()}
    return part[np.newaxis]


def require_equal(ours: list[Steps], theirs: list[Steps]) -> None:
    """Bit for bit."""
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.observation.keys() == other.observation.keys()
        for key, value in mine.observation.items():
            assert np.array_equal(value, other.observation[key]), key
        assert (mine.length, mine.success) == (other.length, other.success)
        assert np.array_equal(mine.actions, other.actions)
        assert np.array_equal(mine.rewards, other.rewards)
