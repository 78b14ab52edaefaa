"""Settings of the stamped policy."""

from dataclasses import dataclass, field

from lerobot.configs import NormalizationMode, PreTrainedConfig
from lerobot.optim import AdamConfig


def _as_it_is() -> dict[str, NormalizationMode]:
    return dict.fromkeys(("STATE", "ENV", "ACTION"), NormalizationMode.IDENTITY)


@PreTrainedConfig.register_subclass("stamped")
@dataclass
class StampedConfig(PreTrainedConfig):
    """Chunks long enough to bridge a fault."""

    chunk_size: int = 100
    n_action_steps: int = 100
    mute_file: str = ""
    """While this file exists, the policy does not answer."""
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=_as_it_is)

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
