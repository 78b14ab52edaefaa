"""The loaded policy: pipelines for robots, chunks for requests."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lerobot.policies.utils import populate_queues
from lerobot.utils.constants import ACTION, OBS_IMAGE, OBS_IMAGES

from lefleet.policy.families import Feed
from lefleet.policy.pipeline import Pipeline, PolicyInput, Prepared, Processors
from lefleet.policy.request import RequestRules
from lefleet.policy.settings import Dtype
from lefleet_client.wire import Capabilities, Contract


@dataclass(frozen=True)
class ServedPolicy:
    """A checkpoint that is warmed up and may be asked.

    `new_pipeline` may be called by any thread, `predict` and `reset` by the one that infers.
    """

    capabilities: Capabilities
    mode_reason: str
    contract_source: str
    warnings: tuple[str, ...]
    processors: Processors
    rules: RequestRules
    runner: "PolicyRunner"

    @property
    def contract(self) -> Contract:
        return self.capabilities.contract

    @property
    def digest(self) -> str:
        return self.capabilities.digest

    @property
    def is_exclusive(self) -> bool:
        """Whether one robot at a time has the policy."""
        return self.capabilities.serving_mode == "exclusive"

    def new_pipeline(self) -> Pipeline:
        """Processors for one more robot."""
        return self.processors.pipeline(self.rules)

    def predict(self, prepared: Prepared) -> torch.Tensor:
        """Actions for one request: 1 x step x action. The same request gives the same actions."""
        return self.runner.predict(prepared)

    def reset(self) -> None:
        """An episode begins; only where one robot has the policy for itself."""
        if not self.is_exclusive:
            raise RuntimeError("a shared policy is not reset: other robots are in mid-episode")
        self.runner.reset()


class PolicyRunner:
    """The policy on its device; belongs to one thread, which owns the device."""

    def __init__(self, policy: Any, feed: Feed, device: str, dtype: Dtype, *, rtc: bool) -> None:
        self._policy = policy
        self._feed = feed
        self._device = torch.device(device)
        self._dtype = dtype
        self._rtc = rtc

    def predict(self, prepared: Prepared) -> torch.Tensor:
        """Actions as the policy makes them: 1 x step x action.

        Autograd stays possible (no inference mode), because real-time chunking uses it.
        """
        with torch.no_grad(), self._autocast():
            torch.manual_seed(prepared.seed)
            if self._feed == "queues":
                actions = self._from_queues(prepared)
            else:
                if self._feed == "restart":
                    self._policy.reset()
                actions = self._policy.predict_action_chunk(
                    prepared.batches[-1], **self._prefix(prepared)
                )
        return actions.to(torch.float32)

    def reset(self) -> None:
        """Forget everything, as at the start of an episode."""
        self._policy.reset()

    def _prefix(self, prepared: Prepared) -> dict[str, Any]:
        """LeRobot's engine passes both also when nothing is left of the last chunk."""
        if not self._rtc:
            return {}
        return {
            "inference_delay": prepared.inference_delay_steps,
            "prev_chunk_left_over": prepared.prefix,
        }

    def _from_queues(self, prepared: Prepared) -> torch.Tensor:
        """What select_action does up to the chunk, with the request's own history."""
        np.random.seed(prepared.seed % 2**32)  # tdmpc draws from numpy too
        self._policy.reset()
        batches = [self._queued(batch) for batch in prepared.batches]
        for batch in batches:
            # The queues have no public name, and select_action would compute a chunk for the first.
            populate_queues(self._policy._queues, batch)  # noqa: SLF001
        actions = self._policy.predict_action_chunk(batches[-1])
        if self._policy.config.type == "tdmpc":
            return _tdmpc_steps(actions, self._policy.config.n_action_repeats)
        return actions

    def _queued(self, batch: PolicyInput) -> PolicyInput:
        """As select_action makes it: no action, and cameras under the one key of the queue."""
        batch = {key: value for key, value in batch.items() if key != ACTION}
        cameras = list(self._policy.config.image_features)
        if cameras and self._policy.config.type == "tdmpc":
            batch[OBS_IMAGE] = batch[cameras[0]]
        elif cameras:
            batch[OBS_IMAGES] = torch.stack([batch[key] for key in cameras], dim=-4)
        return batch

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._dtype in ("bfloat16", "float16"):
            return torch.autocast(self._device.type, dtype=getattr(torch, self._dtype))
        if self._dtype == "auto" and self._device.type == "cuda" and self._policy.config.use_amp:
            return torch.autocast(self._device.type)
        return nullcontext()


def _tdmpc_steps(actions: torch.Tensor, repeats: int) -> torch.Tensor:
    """Time comes first in its plans, and LeRobot repeats the first action if told to."""
    if repeats > 1:
        actions = actions[:1].expand(repeats, -1, -1)
    return actions.transpose(0, 1).contiguous()
