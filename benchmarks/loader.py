"""One way of loading batches, timed: `python -m benchmarks.loader ROOT KIND WORKERS BATCHES FILE`.

A program of its own, so that it runs in the environment in which trainings run. The seconds of
every batch go to FILE as JSON.
"""

import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import torch
from lerobot.datasets import EpisodeAwareSampler
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.utils.utils import cycle

from lefleet.compat.train import in_memory
from lefleet.sim.encode import FPS

BATCH = 64
WINDOW = 10
WARM_UP = 16
"""More than LeRobot's two loader processes have ready at the start."""


def main(root: str, kind: str, workers: int, batches: int) -> list[float]:
    """Seconds of every batch after the warm-up."""
    windows = {"action": [step / FPS for step in range(WINDOW)]}
    theirs = LeRobotDataset(f"local/{Path(root).name}", root=root, delta_timestamps=windows)
    dataset = in_memory(theirs) if kind == "memory" else theirs
    if dataset is not theirs:
        _require_equal(next(iter(_loader(dataset, 0))), next(iter(_loader(theirs, 0))))
    source = cycle(_loader(dataset, workers))
    for _ in range(WARM_UP):
        next(source)
    seconds: list[float] = []
    while len(seconds) < batches:
        started = time.perf_counter()
        batch = next(source)
        passed = time.perf_counter() - started
        # The last batch of an epoch is smaller.
        if len(batch["index"]) == BATCH:
            seconds.append(passed)
    return seconds


def _loader(dataset: Any, workers: int) -> Any:
    """As lerobot-train makes it."""
    sampler = EpisodeAwareSampler(
        dataset.meta.episodes["dataset_from_index"],
        dataset.meta.episodes["dataset_to_index"],
        shuffle=True,
        seed=0,
    )
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=BATCH,
        sampler=sampler,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        persistent_workers=workers > 0,
    )


def _require_equal(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        same = torch.equal(ours[key], value) if torch.is_tensor(value) else ours[key] == value
        assert same, f"{key} differs from LeRobot's"


if __name__ == "__main__":
    result = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    Path(sys.argv[5]).write_bytes(msgspec.json.encode(result))
