"""LeRobot's own engines, for a robot that has the weights: `--inference.type=sync` and `rtc`."""

from dataclasses import dataclass
from threading import Event
from typing import Any

from lerobot.configs import FeatureType, PreTrainedConfig
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor.relative_action_processor import RelativeActionsProcessorStep
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import _load_pretrained_policy
from lerobot.rollout.inference import (
    InferenceEngine,
    RTCInferenceConfig,
    SyncInferenceConfig,
    create_inference_engine,
)
from lerobot.rollout.inference.rtc import supports_rtc_inference
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.utils.constants import ACTION, OBS_IMAGES

from lefleet.edge.features import inputs_of
from lefleet.errors import BadInput
from lefleet.records.checkpoint import leave_out_download


@dataclass(frozen=True)
class LocalPolicy:
    """Weights in this process, with their processors."""

    policy: PreTrainedPolicy
    before: Any
    after: Any

    @classmethod
    def load(cls, cfg: RolloutConfig, features: dict[str, Any]) -> "LocalPolicy":
        """As LeRobot's `build_rollout_context` loads it, but without torch.compile.

        `features` are those of the robot: a policy that does not fit them is refused.
        """
        if cfg.use_torch_compile:
            raise BadInput(
                "use_torch_compile: lefleet rollout does not compile policies.",
                "Leave it out, or use lerobot-rollout.",
            )
        require_fitting(cfg.policy, features, cfg.rename_map)
        if hasattr(cfg.policy, "compile_model"):
            cfg.policy.compile_model = False
        leave_out_download(cfg.policy)
        policy = _load_pretrained_policy(cfg.policy)
        if isinstance(cfg.inference, RTCInferenceConfig):
            _prepare_rtc(policy, cfg.inference)
        policy.to(cfg.device).eval()
        before, after = make_pre_post_processors(
            policy_cfg=cfg.policy,
            pretrained_path=cfg.policy.pretrained_path,
            pretrained_revision=cfg.policy.pretrained_revision,
            preprocessor_overrides={
                "device_processor": {"device": cfg.device},
                "rename_observations_processor": {"rename_map": cfg.rename_map},
            },
        )
        is_relative = any(
            isinstance(step, RelativeActionsProcessorStep) and step.enabled for step in before.steps
        )
        if is_relative and isinstance(cfg.inference, SyncInferenceConfig):
            raise BadInput(
                "inference.type: sync cannot execute a policy with relative actions.",
                "Use --inference.type=rtc, or serve it: --inference.type=remote",
            )
        return cls(policy, before, after)

    def action_names(self, robot_names: list[str]) -> list[str]:
        """The robot's names in the policy's order, where the policy knows them."""
        names = list(getattr(self.policy.config, "action_feature_names", None) or ())
        return names if set(names) == set(robot_names) else robot_names

    def engine(
        self,
        cfg: RolloutConfig,
        robot: ThreadSafeRobot,
        features: dict[str, Any],
        action_names: list[str],
        shutdown_event: Event,
    ) -> InferenceEngine:
        return create_inference_engine(
            cfg.inference,
            policy=self.policy,
            preprocessor=self.before,
            postprocessor=self.after,
            robot_wrapper=robot,
            hw_features={k: v for k, v in features.items() if k.startswith("observation")},
            dataset_features=features,
            ordered_action_keys=action_names,
            task=cfg.task,
            fps=cfg.fps,
            device=cfg.device,
            shutdown_event=shutdown_event,
        )


def require_fitting(
    config: PreTrainedConfig, features: dict[str, Any], renamed: dict[str, str]
) -> None:
    """Refuse a policy whose inputs or actions the robot does not have, before anything moves."""
    here = {renamed.get(key, key): tuple(one["shape"]) for key, one in features.items()}
    inputs = inputs_of(config)
    wanted = {
        key: tuple(one.shape)
        for key, one in inputs.items()
        # Images are resized, and LeRobot lets a policy do without some of its cameras.
        if one.type is not FeatureType.VISUAL
    }
    wanted[ACTION] = tuple(config.output_features[ACTION].shape)
    for key, shape in wanted.items():
        if here.get(key) != shape:
            has = f"{here[key][0]}" if key in here else "none"
            raise BadInput(
                f"policy.path: it needs {key} with {shape[0]} numbers, the robot has {has}.",
                "Choose a checkpoint that was trained for this robot.",
            )
    seen = {key for key, one in inputs.items() if one.type is FeatureType.VISUAL}
    cameras = {key for key in here if key.startswith(f"{OBS_IMAGES}.")}
    if not (seen <= cameras or cameras <= seen):
        raise BadInput(
            f"policy.path: it sees {_listed(seen)}, the robot has {_listed(cameras)}.",
            "Say which is which: --rename_map='{ROBOT: POLICY}'",
        )


def _listed(keys: set[str]) -> str:
    return ", ".join(sorted(keys)) or "nothing"


def _prepare_rtc(policy: PreTrainedPolicy, config: RTCInferenceConfig) -> None:
    if not supports_rtc_inference(policy):
        raise BadInput(
            f"inference.type: a policy of type {policy.config.type} cannot do rtc.",
            "Use --inference.type=sync, or remote.",
        )
    policy.config.rtc_config = config.rtc
    if hasattr(policy, "init_rtc_processor"):
        policy.init_rtc_processor()
