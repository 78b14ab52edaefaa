"""The test policies: a flow that LeRobot's real RTCProcessor guides, and three faulty ones."""

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.rtc import RTCProcessor
from torch import Tensor, nn

from tests.policy.plugins.configuration_tiny import (
    TinyFlowConfig,
    TinyLeakyConfig,
    TinyMuteConfig,
    TinyUnlistedConfig,
)

STATE = "observation.state"


class TinyFlowPolicy(PreTrainedPolicy):
    """Noise to a chunk in a few steps."""

    config_class = TinyFlowConfig
    name = "tiny_flow"

    def __init__(self, config, **kwargs) -> None:
        super().__init__(config)
        self.actions = config.action_feature.shape[0]
        states = config.robot_state_feature.shape[0]
        width = config.chunk_size * self.actions
        self.net = nn.Sequential(
            nn.Linear(width + states + 1, 32), nn.Tanh(), nn.Linear(32, width), nn.Tanh()
        )
        self.init_rtc_processor()

    def supports_rtc(self) -> bool:
        return True

    def init_rtc_processor(self) -> None:
        rtc = self.config.rtc_config
        self.rtc_processor = RTCProcessor(rtc) if rtc is not None else None

    def reset(self) -> None:
        return None

    def get_optim_params(self):
        return self.parameters()

    def forward(self, batch: dict[str, Tensor]):
        raise NotImplementedError

    def select_action(self, batch: dict[str, Tensor], **kwargs) -> Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def predict_action_chunk(
        self,
        batch: dict[str, Tensor],
        inference_delay: int | None = None,
        prev_chunk_left_over: Tensor | None = None,
    ) -> Tensor:
        state = batch[STATE]
        shape = (len(state), self.config.chunk_size, self.actions)
        noisy = torch.randn(shape)
        for step in range(self.config.flow_steps):
            time = 1.0 - step / self.config.flow_steps

            def velocity(x: Tensor, time: float = time) -> Tensor:
                inputs = [x.flatten(1), state, torch.full((len(state), 1), time)]
                return self.net(torch.cat(inputs, dim=1)).reshape(shape)

            if self.rtc_processor is None:
                change = velocity(noisy)
            else:
                change = self.rtc_processor.denoise_step(
                    x_t=noisy,
                    prev_chunk_left_over=prev_chunk_left_over,
                    inference_delay=inference_delay,
                    time=time,
                    original_denoise_step_partial=velocity,
                )
            noisy = noisy - change / self.config.flow_steps
        return noisy


class TinyUnlistedPolicy(TinyFlowPolicy):
    """The same under another name, without RTC."""

    config_class = TinyUnlistedConfig
    name = "tiny_unlisted"

    def supports_rtc(self) -> bool:
        return False


class TinyLeakyPolicy(TinyUnlistedPolicy):
    """Adds a little of the last state that it saw, of any robot."""

    config_class = TinyLeakyConfig
    name = "tiny_leaky"

    def __init__(self, config, **kwargs) -> None:
        super().__init__(config, **kwargs)
        self.reset()

    def reset(self) -> None:
        self._last = 0.0

    def predict_action_chunk(self, batch: dict[str, Tensor], **kwargs) -> Tensor:
        chunk = super().predict_action_chunk(batch) + 0.01 * self._last
        self._last = float(batch[STATE].sum())
        return chunk


class TinyMutePolicy(TinyUnlistedPolicy):
    """Has the method, which proves nothing."""

    config_class = TinyMuteConfig
    name = "tiny_mute"

    def predict_action_chunk(self, batch: dict[str, Tensor], **kwargs) -> Tensor:
        raise NotImplementedError("single actions only")
