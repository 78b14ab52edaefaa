"""Batches as LeRobot's evaluation makes them, and what LeRobot itself does with their rows."""

import torch
from lerobot.envs import preprocess_observation
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from tests.policy import tiny


def batch_of(config, rows: int, seed: int) -> dict:
    """What `rows` environments show: through LeRobot's own conversion, from arrays of bytes."""
    draw = torch.Generator().manual_seed(seed)
    seen = {"agent_pos": torch.randn(rows, len(tiny.JOINTS), generator=draw).numpy()}
    if config.env_state_feature:
        seen["environment_state"] = torch.randn(rows, len(tiny.OBJECT), generator=draw).numpy()
    shape = (rows, tiny.HEIGHT, tiny.WIDTH, 3)
    seen["pixels"] = {
        key.removeprefix("observation.images."): torch.randint(
            0, 256, shape, dtype=torch.uint8, generator=draw
        ).numpy()
        for key in config.image_features
    }
    return {**preprocess_observation(seen), "task": [f"reach {row}" for row in range(rows)]}


def row_of(batch: dict, row: int) -> dict:
    return {key: value[row : row + 1] for key, value in batch.items()}


class InProcess:
    """A checkpoint as lerobot-eval runs it without a server."""

    def __init__(self, folder) -> None:
        self.config = tiny.ACTConfig.from_pretrained(folder)
        self.policy = get_policy_class(self.config.type).from_pretrained(folder)
        self._before, self._after = make_pre_post_processors(
            self.config, pretrained_path=str(folder)
        )

    def select_action(self, batch: dict) -> torch.Tensor:
        with torch.inference_mode():
            return self._after(self.policy.select_action(self._before(batch)))

    def predict_action_chunk(self, batch: dict) -> torch.Tensor:
        with torch.inference_mode():
            return self._after(self.policy.predict_action_chunk(self._before(batch)))
