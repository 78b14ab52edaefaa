"""A LeRobot checkpoint as a batch of actions, computed as LeRobot's own evaluation does."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.envs.utils import preprocess_observation
from lerobot.policies.factory import get_policy_class, make_policy, make_pre_post_processors
from lerobot.utils.constants import ACTION

import lerobot_policy_lefleet  # noqa: F401 - registers a step that checkpoints may have
from lefleet.records.checkpoint import leave_out_download
from lefleet.rollouts.worlds import EnvObservation

if TYPE_CHECKING:
    from lefleet.rollouts.environments import Environment


class BatchPolicy:
    """LeRobot's actions for a fixed number of rows.

    The number of rows never changes within a batch: matrix kernels may round differently for
    another number of rows, and an episode must not depend on how many others are still running.
    """

    def __init__(
        self, checkpoint: str, device: str, environment: "Environment | None" = None
    ) -> None:
        """`environment`: the one that the policy acts in, None for LeFleet's simulation."""
        config = PreTrainedConfig.from_pretrained(checkpoint)
        config.pretrained_path = checkpoint
        config.device = device
        leave_out_download(config)
        if environment is None:
            policy_class = get_policy_class(config.type)
            self._policy = policy_class.from_pretrained(checkpoint, config=config)
        else:
            self._policy = make_policy(config, env_cfg=environment.config)
        self._policy.to(device).eval()
        self._before, self._after = make_pre_post_processors(
            policy_cfg=config,
            pretrained_path=checkpoint,
            preprocessor_overrides={"device_processor": {"device": device}},
        )
        # LeFleet's own simulation needs none.
        self._observed, self._executed = _between(environment, config)
        self._device = device
        self._is_mixed = bool(config.use_amp)
        self._steps_per_plan = _steps_per_plan(config)
        self._planned: deque[torch.Tensor] = deque()

    def reset(self, seed: int) -> None:
        """Forget the last batch. Policies that sample draw from `seed`."""
        torch.manual_seed(seed)
        self._planned.clear()
        self._policy.reset()
        self._before.reset()
        self._after.reset()

    @property
    def looks(self) -> bool:
        return not self._planned

    def act(
        self, observations: Sequence[EnvObservation], instructions: Sequence[str]
    ) -> npt.NDArray[np.float32]:
        """One action per row."""
        if not self._planned:
            self._plan(observations, instructions)
        action = self._after(self._planned.popleft())
        if self._executed is not None:
            action = self._executed({ACTION: action})[ACTION]
        actions: npt.NDArray[np.float32] = action.to("cpu").numpy()
        return actions

    def _plan(self, observations: Sequence[EnvObservation], instructions: Sequence[str]) -> None:
        batch = preprocess_observation(_stacked(observations))
        batch["task"] = list(instructions)
        if self._observed is not None:
            batch = self._observed(batch)
        with torch.inference_mode(), self._precision():
            if self._steps_per_plan == 1:
                self._planned.append(self._policy.select_action(self._before(batch)))
            else:
                chunk = self._policy.predict_action_chunk(self._before(batch))
                self._planned.extend(chunk[:, : self._steps_per_plan].unbind(1))

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(torch.device(self._device).type) if self._is_mixed else nullcontext()


def _between(environment: "Environment | None", config: Any) -> tuple[Any, Any]:
    """LeRobot's pipelines for what is observed and what is executed in an environment."""
    return environment.processors(config) if environment else (None, None)


def _stacked(rows: Sequence[Any]) -> Any:
    """Rows of observations as the batch that a vector environment observes."""
    if isinstance(rows[0], Mapping):
        return {name: _stacked([row[name] for row in rows]) for name in rows[0]}
    return np.stack(rows)


def _steps_per_plan(config: Any) -> int:
    """How many actions the policy plans from one observation without looking at later ones.

    ACT's own queue does just that, but it is asked, and its observation prepared, at every step.
    Other policies look at every observation, so they are asked every time.
    """
    looks_once = config.type == "act" and config.temporal_ensemble_coeff is None
    return int(config.n_action_steps) if looks_once else 1
