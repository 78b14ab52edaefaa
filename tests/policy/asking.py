"""Requests as a robot would make them, and LeRobot's own answers to them."""

import copy
from pathlib import Path

import numpy as np
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.rtc import RTCConfig, reanchor_relative_rtc_prefix
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import NormalizerProcessorStep, RelativeActionsProcessorStep

from lefleet.policy import Chunk, PolicyFrame, PolicyRequest, ServedPolicy
from tests.policy import tiny

TASK = "reach for it"


def frames_for(served: ServedPolicy, count: int, seed: int = 0) -> list[PolicyFrame]:
    """What a robot sees in `count` steps."""
    numbers = np.random.default_rng(seed)
    return [
        {
            key: numbers.uniform(-2, 2, len(names)).astype(np.float32)
            for key, names in served.contract.vectors.items()
        }
        | {
            key: numbers.integers(0, 256, shape, np.uint8)
            for key, shape in served.contract.cameras.items()
        }
        for _ in range(count)
    ]


def rows_for(served: ServedPolicy, count: int, seed: int = 0) -> np.ndarray:
    """What is left of a chunk."""
    numbers = np.random.default_rng(1000 + seed)
    return numbers.uniform(-1, 1, (count, len(served.contract.action_names))).astype(np.float32)


def request_for(served: ServedPolicy, seed: int = 0, **changes) -> PolicyRequest:
    values = {
        "frames": tuple(frames_for(served, served.capabilities.n_obs_steps, seed)),
        "task": TASK,
        "robot_type": "arm",
        "seed": seed,
    }
    return PolicyRequest(**values | changes)


def ask(served: ServedPolicy, request: PolicyRequest) -> Chunk:
    """One request by a robot that was never seen before."""
    pipeline = served.new_pipeline()
    return pipeline.finish(served.predict(pipeline.prepare(request)))


class Local:
    """A checkpoint as LeRobot's own programs load and run it."""

    def __init__(self, folder: Path) -> None:
        config = PreTrainedConfig.from_pretrained(folder)
        self.policy = get_policy_class(config.type).from_pretrained(folder, config=config)
        self.before, self.after = make_pre_post_processors(config, pretrained_path=str(folder))
        self.relative = self._step(RelativeActionsProcessorStep)
        if self.relative is not None:
            # LeRobot's engine takes them from the robot.
            self.relative.action_names = list(tiny.JOINTS)
        self.policy.reset()

    def _step(self, kind: type):
        return next((step for step in self.before.steps if isinstance(step, kind)), None)

    def with_rtc(self) -> "Local":
        self.policy.config.rtc_config = RTCConfig()
        self.policy.init_rtc_processor()
        return self

    def anchored(self, rows: np.ndarray) -> torch.Tensor:
        """Actions of the robot in the policy's own space, relative to the last state seen."""
        return reanchor_relative_rtc_prefix(
            torch.from_numpy(rows),
            self.relative.get_cached_state(),
            self.relative,
            self._step(NormalizerProcessorStep),
            "cpu",
        )

    def batch(self, frame: PolicyFrame) -> dict:
        arrays = copy.deepcopy(frame)
        batch = prepare_observation_for_inference(arrays, torch.device("cpu"), TASK, "arm")
        return self.before(batch | {"task": [TASK]})

    def chunk(self, frame: PolicyFrame, seed: int, **kwargs) -> Chunk:
        """As LeRobot's RTC engine computes it."""
        batch = self.batch(frame)
        torch.manual_seed(seed)
        return self.finished(self.policy.predict_action_chunk(batch, **kwargs))

    def finished(self, actions: torch.Tensor) -> Chunk:
        return Chunk(actions[0].clone().numpy(), self.after(actions)[0].numpy())


def same(one: Chunk, other: Chunk) -> bool:
    """Bit for bit."""
    return (
        one.model.dtype == other.model.dtype == np.float32
        and one.model.shape == other.model.shape
        and one.robot.shape == other.robot.shape
        and one.model.tobytes() == other.model.tobytes()
        and one.robot.tobytes() == other.robot.tobytes()
    )
