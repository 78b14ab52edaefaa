"""A LeRobot checkpoint as a batch of actions, computed as LeRobot's own evaluation does."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.envs.utils import preprocess_observation
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from lefleet.sim.encode import EncodedObservation


class BatchPolicy:
    """LeRobot's actions for a fixed number of rows.

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

        self._steps_per_plan = _steps_per_plan(config)
        self._planned: deque[torch.Tensor] = deque()

    def reset(self, seed: int) -> None:
        """Forget the last batch. Policies that sample draw from `seed`."""
        torch.manual_seed(seed)
        self._planned.clear()
        self._policy.reset()
        self._before.reset()
        self._after.reset()

    def act(
        self, observations: Sequence[EncodedObservation], instructions: Sequence[str]
    ) -> npt.NDArray[np.float32]:
        """One action per row."""
        if not self._planned:
            self._plan(observations, instructions)
        return self._after(self._planned.popleft()).to("cpu").numpy()

    def _plan(
        self, observations: Sequence[EncodedObservation], instructions: Sequence[str]
    ) -> None:
        batch = preprocess_observation(
            {
                "agent_pos": np.stack([one.state for one in observations]),
                "environment_state": np.stack([one.environment for one in observations]),
            }
        )
        batch["task"] = list(instructions)
        with torch.inference_mode():
            if self._steps_per_plan == 1:
                self._planned.append(self._policy.select_action(self._before(batch)))
            else:
                chunk = self._policy.predict_action_chunk(self._before(batch))
                self._planned.extend(chunk[:, : self._steps_per_plan].unbind(1))


def _steps_per_plan(config: Any) -> int:
    """How many actions the policy plans from one observation without looking at later ones.

    ACT's own queue does just that, but it is asked, and its observation prepared, at every step.
    Other policies look at every observation, so they are asked every time.
    """
    looks_once = config.type == "act" and config.temporal_ensemble_coeff is None
    return int(config.n_action_steps) if looks_once else 1
