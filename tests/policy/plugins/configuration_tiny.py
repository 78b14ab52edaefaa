"""Settings of the test policies."""

from dataclasses import dataclass, field

from lerobot.configs import NormalizationMode, PreTrainedConfig
from lerobot.optim import AdamConfig
from lerobot.policies.rtc import RTCConfig


def _normalization() -> dict[str, NormalizationMode]:
    return dict.fromkeys(("STATE", "ENV", "ACTION"), NormalizationMode.MEAN_STD)


@PreTrainedConfig.register_subclass("tiny_flow")
@dataclass
class TinyFlowConfig(PreTrainedConfig):
    """A small flow-matching net."""

    chunk_size: int = 8
    n_action_steps: int = 8
    flow_steps: int = 4
    rtc_config: RTCConfig | None = None
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=_normalization)

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> AdamConfig:
        return AdamConfig()

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        return None


@PreTrainedConfig.register_subclass("tiny_leaky")
@dataclass
class TinyLeakyConfig(TinyFlowConfig):
    """One that remembers whom it saw last."""


@PreTrainedConfig.register_subclass("tiny_mute")
@dataclass
class TinyMuteConfig(TinyFlowConfig):
    """One that has the chunk API and does not implement it."""


@PreTrainedConfig.register_subclass("tiny_unlisted")
@dataclass
class TinyUnlistedConfig(TinyFlowConfig):
    """One that is not in the list of families."""
