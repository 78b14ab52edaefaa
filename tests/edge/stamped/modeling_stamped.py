"""The stamped policy: a velocity that counts the steps, the observed clock, the model's mark."""

import time
from pathlib import Path

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

from tests.edge.stamped.configuration_stamped import StampedConfig

ENVIRONMENT = "observation.environment_state"
STEP = 0.01
"""Velocity of the first step; the second one has twice this, and none has zero."""


class StampedPolicy(PreTrainedPolicy):
    """So a robot can tell how old an action is, and who computed it, without asking the engine."""

    config_class = StampedConfig
    name = "stamped"

    def __init__(self, config, **kwargs) -> None:
        super().__init__(config)
        self.mark = nn.Parameter(torch.zeros(()))

    def reset(self) -> None:
        return None

    def get_optim_params(self):
        return self.parameters()

    def forward(self, batch: dict[str, Tensor]):
        raise NotImplementedError

    def select_action(self, batch: dict[str, Tensor], **kwargs) -> Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Tensor], **kwargs) -> Tensor:
        while self.config.mute_file and Path(self.config.mute_file).exists():
            time.sleep(0.01)
        clock = batch[ENVIRONMENT][:, :1]
        steps = STEP * torch.arange(1, self.config.chunk_size + 1)
        columns = (steps.expand(len(clock), -1), clock.expand(-1, len(steps)))
        return torch.stack([*columns, self.mark.expand(len(clock), len(steps))], dim=-1)
