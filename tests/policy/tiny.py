"""Tiny real checkpoints: random weights, statistics that matter, and a contract beside them."""

from pathlib import Path

import torch
from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot.processor import (
    AbsoluteActionsProcessorStep,
    NormalizerProcessorStep,
    RelativeActionsProcessorStep,
)

from lefleet.records import Contract, encode
from lefleet.stages.contract import CONTRACT_FILE

STATE = "observation.state"
ENVIRONMENT = "observation.environment_state"
TOP = "observation.images.top"
WRIST = "observation.images.wrist"
JOINTS = ("shoulder.pos", "elbow.pos", "gripper.pos")
OBJECT = ("x", "y", "z", "angle")
HEIGHT, WIDTH = 24, 32
FPS = 20

_SMALL_ACT = {
    "pretrained_backbone_weights": None,
    "chunk_size": 8,
    "n_action_steps": 6,
    "dim_model": 16,
    "n_heads": 2,
    "dim_feedforward": 16,
    "n_encoder_layers": 1,
    "n_decoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 4,
    "device": "cpu",
}


def act_images(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """ACT with two cameras and a state."""
    config = ACTConfig(**_features(STATE, TOP, WRIST), **_SMALL_ACT | changes)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed)


def act_environment(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """ACT with a state and the environment's state: no cameras."""
    config = ACTConfig(**_features(STATE, ENVIRONMENT), **_SMALL_ACT | changes)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed)


def relative_act(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """ACT whose actions are relative to the state, except the gripper's."""
    config = ACTConfig(**_features(STATE, ENVIRONMENT), **_SMALL_ACT)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed, relative=True)


def diffusion_history(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """Diffusion that looks at two observations, with two cameras."""
    settings = {
        "n_obs_steps": 2,
        "horizon": 8,
        "n_action_steps": 4,
        "down_dims": (8, 16),
        "n_groups": 4,
        "diffusion_step_embed_dim": 8,
        "num_train_timesteps": 4,
        "num_inference_steps": 2,
        "pretrained_backbone_weights": None,
        "use_group_norm": True,
        "crop_ratio": 1.0,
        "spatial_softmax_num_keypoints": 2,
        "drop_n_last_frames": 3,
        "device": "cpu",
    }
    config = DiffusionConfig(**_features(STATE, TOP, WRIST), **settings | changes)
    return _save(folder, config, DiffusionPolicy, contract=contract, seed=seed)


def write_contract(folder: Path, config, **changes) -> None:
    """lefleet.json as the train stage writes it."""
    named = {STATE: JOINTS, ENVIRONMENT: OBJECT}
    values = {
        "action_names": JOINTS,
        "vectors": {key: named[key] for key in config.input_features if key in named},
        "cameras": {key: (HEIGHT, WIDTH, 3) for key in config.image_features},
        "fps": FPS,
        "policy_type": config.type,
        "robot_type": "arm",
        "tasks": ("reach",),
        "dataset_digest": "d" * 64,
    }
    (folder / CONTRACT_FILE).write_bytes(encode(Contract(**values | changes)))


def statistics(config) -> dict[str, dict[str, torch.Tensor]]:
    """Different for every column, so that a wrong order or a missing step shows."""
    found = {}
    for key, feature in {**config.input_features, **config.output_features}.items():
        size = feature.shape[0]
        shape = (size, 1, 1) if feature.type is FeatureType.VISUAL else (size,)
        steps = torch.arange(1, size + 1, dtype=torch.float32).reshape(shape)
        found[key] = {
            "mean": 0.1 * steps,
            "std": 0.5 + 0.25 * steps,
            "min": -1.0 - steps,
            "max": 1.0 + 2 * steps,
        }
    return found


def _features(*inputs: str) -> dict:
    known = {
        STATE: PolicyFeature(FeatureType.STATE, (len(JOINTS),)),
        ENVIRONMENT: PolicyFeature(FeatureType.ENV, (len(OBJECT),)),
        TOP: PolicyFeature(FeatureType.VISUAL, (3, HEIGHT, WIDTH)),
        WRIST: PolicyFeature(FeatureType.VISUAL, (3, HEIGHT, WIDTH)),
    }
    return {
        "input_features": {key: known[key] for key in inputs},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (len(JOINTS),))},
        "normalization_mapping": {
            "VISUAL": NormalizationMode.MEAN_STD,
            "STATE": NormalizationMode.MEAN_STD,
            "ENV": NormalizationMode.MEAN_STD,
            "ACTION": NormalizationMode.MEAN_STD,
        },
    }


def _save(
    folder: Path, config, policy_class, *, contract: bool, seed: int, relative: bool = False
) -> Path:
    """Policy and processors as LeRobot saves them, and the contract."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = policy_class(config)
        for parameter in policy.parameters():
            # Fresh biases and query embeddings are often zero, and then inputs hardly matter.
            torch.nn.init.normal_(parameter, std=0.2)
    policy.save_pretrained(folder)
    before, after = make_pre_post_processors(config, dataset_stats=statistics(config))
    if relative:
        _make_relative(before, after)
    before.save_pretrained(folder)
    after.save_pretrained(folder)
    if contract:
        write_contract(folder, config)
    return folder


def _make_relative(before, after) -> None:
    """The steps where the π0 family has them: before normalising, after undoing that."""
    step = RelativeActionsProcessorStep(enabled=True, exclude_joints=["gripper"])
    place = [isinstance(one, NormalizerProcessorStep) for one in before.steps].index(True)
    before.steps.insert(place, step)
    after.steps.insert(1, AbsoluteActionsProcessorStep(enabled=True, relative_step=step))
