"""Tiny real checkpoints: random weights, statistics that matter, and a contract beside them."""

import shutil
from pathlib import Path

import torch
from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot.processor import (
    AbsoluteActionsProcessorStep,
    NormalizerProcessorStep,
    RelativeActionsProcessorStep,
)

from lefleet.policy.settings import ModelSettings
from lefleet.records import CheckpointContract, encode
from lefleet.stages.contract import CONTRACT_FILE
from lerobot_policy_lefleet import EnvironmentStateStep
from tests.policy.plugins.configuration_tiny import (
    TinyFlowConfig,
    TinyLeakyConfig,
    TinyMuteConfig,
    TinyUnlistedConfig,
)
from tests.policy.plugins.modeling_tiny import (
    TinyFlowPolicy,
    TinyLeakyPolicy,
    TinyMutePolicy,
    TinyUnlistedPolicy,
)

PLUGINS = "tests.policy.plugins"
"""The package that a server must be told to import for the last five."""

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


def act_images(
    folder: Path,
    *,
    cameras=(TOP, WRIST),
    contract: bool = True,
    seed: int = 0,
    spread: float = 0.5,
    **changes,
) -> Path:
    """ACT with cameras and a state; with images larger than its own, it needs a smaller spread."""
    config = ACTConfig(**_features(STATE, *cameras), **_SMALL_ACT | changes)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed, spread=spread)


def act_environment(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """ACT with a state and the environment's state: no cameras."""
    config = ACTConfig(**_features(STATE, ENVIRONMENT), **_SMALL_ACT | changes)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed)


def act_state(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """ACT with a state alone: its preprocessor makes the environment's state from it."""
    config = ACTConfig(**_state_alone(), **_SMALL_ACT | changes)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed, environment_step=True)


def act_adapter(folder: Path, base: Path) -> Path:
    """A LoRA on an ACT checkpoint, saved as LeRobot's training saves it."""
    from peft import LoraConfig, get_peft_model

    policy = ACTPolicy.from_pretrained(base)
    policy.name_or_path = str(base)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        settings = LoraConfig(r=2, target_modules=["action_head"], init_lora_weights=False)
        adapted = get_peft_model(policy, settings)
    adapted.save_pretrained(folder)
    adapted.config.use_peft = True
    adapted.config.save_pretrained(folder)
    for file in (*base.glob("policy_*processor*"), base / CONTRACT_FILE):
        shutil.copy(file, folder)
    return folder


def relative_act(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """ACT whose actions are relative to the state, except the gripper's."""
    config = ACTConfig(**_features(STATE, ENVIRONMENT), **_SMALL_ACT)
    return _save(folder, config, ACTPolicy, contract=contract, seed=seed, relative=True)


def diffusion_history(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """Diffusion that looks at two observations, with two cameras."""
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

    config = DiffusionConfig(**_features(STATE, TOP, WRIST), **_small_diffusion() | changes)
    return _save(folder, config, DiffusionPolicy, contract=contract, seed=seed)


def diffusion_state(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """The same with a state alone."""
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

    config = DiffusionConfig(**_state_alone(), **_small_diffusion())
    return _save(
        folder, config, DiffusionPolicy, contract=contract, seed=seed, environment_step=True
    )


def _small_diffusion() -> dict:
    return {
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


def rtc_flow(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """A flow with real-time chunking: what is left of the last chunk changes the next one."""
    config = TinyFlowConfig(**_features(STATE), device="cpu", **changes)
    return _save(folder, config, TinyFlowPolicy, contract=contract, seed=seed)


def rtc_relative(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """The same with actions relative to the state, except the gripper's."""
    config = TinyFlowConfig(**_features(STATE), device="cpu", **changes)
    return _save(folder, config, TinyFlowPolicy, contract=contract, seed=seed, relative=True)


def impure(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """A policy that leaks one robot's state into the next one's chunk, and claims not to."""
    config = TinyLeakyConfig(**_features(STATE), device="cpu")
    return _save(folder, config, TinyLeakyPolicy, contract=contract, seed=seed)


def mute(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """A policy whose chunk API raises NotImplementedError."""
    config = TinyMuteConfig(**_features(STATE), device="cpu")
    return _save(folder, config, TinyMutePolicy, contract=contract, seed=seed)


def unlisted(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """A policy of a type that LeFleet does not know."""
    config = TinyUnlistedConfig(**_features(STATE), device="cpu", **changes)
    return _save(folder, config, TinyUnlistedPolicy, contract=contract, seed=seed)


def tdmpc(folder: Path, *, contract: bool = True, seed: int = 0, **changes) -> Path:
    """A policy that plans from its queues."""
    from lerobot.policies.tdmpc.configuration_tdmpc import TDMPCConfig
    from lerobot.policies.tdmpc.modeling_tdmpc import TDMPCPolicy

    settings = {
        "latent_dim": 4,
        "q_ensemble_size": 2,
        "mlp_dim": 8,
        "state_encoder_hidden_dim": 8,
        "cem_iterations": 2,
        "n_gaussian_samples": 8,
        "n_pi_samples": 4,
        "n_elites": 4,
        "n_action_repeats": 1,
        "n_action_steps": 5,
        "device": "cpu",
    }
    features = _features(STATE, ENVIRONMENT)
    del features["normalization_mapping"]  # it insists on its own: actions from -1 to 1
    config = TDMPCConfig(**features, **settings | changes)
    return _save(folder, config, TDMPCPolicy, contract=contract, seed=seed)


def vqbet(folder: Path, *, contract: bool = True, seed: int = 0) -> Path:
    """A policy whose chunk reads a queue of three observations."""
    from lerobot.policies.vqbet.configuration_vqbet import VQBeTConfig
    from lerobot.policies.vqbet.modeling_vqbet import VQBeTPolicy

    config = VQBeTConfig(
        **_features(STATE, TOP),
        n_obs_steps=3,
        n_action_pred_token=2,
        action_chunk_size=3,
        crop_shape=(20, 20),
        pretrained_backbone_weights=None,
        use_group_norm=True,
        spatial_softmax_num_keypoints=2,
        vqvae_n_embed=4,
        vqvae_embedding_dim=8,
        vqvae_enc_hidden_dim=8,
        gpt_block_size=32,
        gpt_input_dim=8,
        gpt_output_dim=8,
        gpt_n_layer=1,
        gpt_n_head=2,
        gpt_hidden_dim=8,
        device="cpu",
    )
    return _save(folder, config, VQBeTPolicy, contract=contract, seed=seed)


def model(folder: Path, **changes) -> ModelSettings:
    """How a server is told of a checkpoint."""
    values = {"repo_or_path": str(folder), "discover_packages": (PLUGINS,)}
    return ModelSettings(**values | changes)


def write_contract(folder: Path, config, **changes) -> None:
    """lefleet.json as the train stage writes it."""
    named = {STATE: JOINTS, ENVIRONMENT: OBJECT}
    values = {
        "action_names": JOINTS,
        "vectors": {key: named[key] for key in config.input_features if key in named},
        "cameras": dict.fromkeys(config.image_features, (HEIGHT, WIDTH, 3)),
        "fps": FPS,
        "policy_type": config.type,
        "robot_type": "arm",
        "tasks": ("reach",),
        "dataset_digest": "d" * 64,
    }
    (folder / CONTRACT_FILE).write_bytes(encode(CheckpointContract(**values | changes)))


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


def _state_alone() -> dict:
    features = _features(STATE, ENVIRONMENT)
    features["input_features"][ENVIRONMENT] = PolicyFeature(FeatureType.ENV, (len(JOINTS),))
    return features


def _save(
    folder: Path,
    config,
    policy_class,
    *,
    contract: bool,
    seed: int,
    relative: bool = False,
    environment_step: bool = False,
    spread: float = 0.5,
) -> Path:
    """Policy and processors as LeRobot saves them, and the contract."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = policy_class(config)
        for parameter in policy.parameters():
            # Fresh biases and query embeddings are often zero, and then inputs hardly matter.
            torch.nn.init.normal_(parameter, std=spread)
    policy.save_pretrained(folder)
    before, after = make_pre_post_processors(config, dataset_stats=statistics(config))
    if relative:
        _make_relative(before, after)
    if environment_step:
        before.steps.append(EnvironmentStateStep())
    before.save_pretrained(folder)
    after.save_pretrained(folder)
    if contract:
        sent = {"vectors": {STATE: JOINTS}} if environment_step else {}
        write_contract(folder, config, **sent)
    return folder


def _make_relative(before, after) -> None:
    """The steps where the π0 family has them: before normalising, after undoing that."""
    step = RelativeActionsProcessorStep(enabled=True, exclude_joints=["gripper"])
    place = [isinstance(one, NormalizerProcessorStep) for one in before.steps].index(True)
    before.steps.insert(place, step)
    after.steps.insert(1, AbsoluteActionsProcessorStep(enabled=True, relative_step=step))
