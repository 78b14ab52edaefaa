"""A LeRobot checkpoint as a batch of actions, computed as LeRobot's own evaluation does."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.envs.utils import preprocess_observation
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from lefleet.sim.encode import Observation


class BatchPolicy:
    """`select_action` for a fixed number of rows.

    The number of rows never changes within a batch: matrix kernels may round differently for
    another number of rows, and an episode must not depend on how many others are still running.
    """

    def __init__(self, checkpoint: str, device: str) -> None:
        config = PreTrainedConfig.from_pretrained(checkpoint)
        config.pretrained_path = checkpoint
        config.device = device
        self._policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
        self._policy.to(device).eval()
        self._before, self._after = make_pre_post_processors(
            policy_cfg=config,
            pretrained_path=checkpoint,
            preprocessor_overrides={"device_processor": {"device": device}},
        )

    def reset(self, seed: int) -> None:
        """Forget the last batch. Policies that sample draw from `seed`."""
        torch.manual_seed(seed)
        self._policy.reset()
        self._before.reset()
        self._after.reset()

    def act(
        self, observations: Sequence[Observation], instructions: Sequence[str]
    ) -> npt.NDArray[np.float32]:
        """One action per row."""
        batch = preprocess_observation(
            {
                "agent_pos": np.stack([one.state for one in observations]),
                "environment_state": np.stack([one.environment for one in observations]),
            }
        )
        batch["task"] = list(instructions)
        with torch.inference_mode():
            action = self._policy.select_action(self._before(batch))
        return self._after(action).to("cpu").numpy()
