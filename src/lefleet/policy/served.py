"""The loaded policy: pipelines for robots, chunks for requests."""

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch

from lefleet.policy.families import Feed
from lefleet.policy.pipeline import Pipeline, Prepared
from lefleet.policy.rules import Rules
from lefleet.policy.runner import Runner
from lefleet_client.wire import Contract


@dataclass(frozen=True)
class Processors:
    """The checkpoint's pre- and postprocessor, never run: what every pipeline is a copy of."""

    before: Any
    after: Any
    feed: Feed
    device: str

    def pipeline(self, rules: Rules) -> Pipeline:
        """Copied together: a step that makes actions absolute refers to the one in `before`."""
        before, after = copy.deepcopy((self.before, self.after))
        return Pipeline(before, after, rules, self.feed, self.device)


@dataclass(frozen=True)
class ServedPolicy:
    """A checkpoint that is warmed up and may be asked.

    `new_pipeline` may be called by any thread, `predict` and `reset` by the one that infers.
    """

    digest: str
    policy_type: str
    chunk_size: int
    n_action_steps: int
    n_obs_steps: int
    supports_rtc: bool
    rtc_horizon: int
    mode: Literal["shared", "exclusive"]
    mode_reason: str
    contract: Contract
    contract_source: str
    warnings: tuple[str, ...]
    processors: Processors
    rules: Rules
    runner: Runner

    def new_pipeline(self) -> Pipeline:
        """Processors for one more robot."""
        return self.processors.pipeline(self.rules)

    def predict(self, prepared: Prepared) -> torch.Tensor:
        """Actions for one request: 1 x step x action. The same request gives the same actions."""
        return self.runner.predict(prepared)

    def reset(self) -> None:
        """An episode begins; only where one robot has the policy for itself."""
        if self.mode == "shared":
            raise RuntimeError("a shared policy is not reset: other robots are in mid-episode")
        self.runner.reset()
