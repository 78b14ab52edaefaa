"""`lerobot-train` with state data served from memory, and with statistics that were corrected;
takes lerobot-train's flags.

LeRobotDataset reads one frame at a time through Arrow, about 3 ms each: a batch of 64 waits
160 ms for 27 ms of training. State data is small, so all of it is read once and a batch becomes
a few tensor look-ups. Samples are equal to LeRobot's, key by key and bit by bit.

LeRobot divides by the spread of a column, even where that is rounding. The variable
LEFLEET_TRAINING replaces such statistics of the dataset, in memory; the checkpoint's processors
keep them. Features that are renamed for a checkpoint keep their statistics.
"""

import json
import logging
import os
import sys
from typing import Any

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.scripts import lerobot_train
from torch.utils.data._utils.collate import default_collate_fn_map

from lefleet.compat import is_known_lerobot

CHANGES = "LEFLEET_TRAINING"
"""What to change beside the data's place, as JSON; set by stages.lerobot_train."""
LIMIT_BYTES = 4 * 2**30
"""Larger datasets stay with LeRobot's loader."""


def in_memory(dataset: Any) -> Any:
    """`dataset` served from memory where that is possible, else `dataset` itself."""
    return MemoryDataset(dataset) if is_suitable(dataset) else dataset


def is_suitable(dataset: Any) -> bool:
    """Plain vectors and numbers only, and not a subclass with ways of its own."""
    if type(dataset) is not LeRobotDataset:
        return False
    meta = dataset.meta
    if meta.camera_keys or meta.has_language_columns or dataset.image_transforms is not None:
        return False
    features = meta.features.values()
    if any(feature["dtype"] in ("string", "image", "video") for feature in features):
        return False
    if any(len(feature["shape"]) > 1 for feature in features):
        return False
    return dataset.hf_dataset.data.nbytes <= LIMIT_BYTES


class CollatedBatch(dict[str, Any]):
    """A batch that needs no collating. The loader hands it to torch's collate function, which
    looks its type up in a table and finds `_first`."""


def _first(batch: list[CollatedBatch], *, collate_fn_map: Any = None) -> CollatedBatch:  # noqa: ARG001
    return batch[0]


default_collate_fn_map[CollatedBatch] = _first


class MemoryDataset(torch.utils.data.Dataset):
    """A LeRobotDataset whose samples come from tensors; all else is the dataset's own."""

    def __init__(self, dataset: LeRobotDataset) -> None:
        self._dataset = dataset
        rows = dataset.hf_dataset
        first = rows[0]
        self._columns = {
            name: _column(rows.data.column(name), first[name]) for name in rows.column_names
        }
        self._task_names = [str(name) for name in dataset.meta.tasks.index]
        self._windows = dataset.reader.delta_indices or {}
        episode = self._columns["episode_index"]
        starts_here = torch.ones(len(episode), dtype=torch.bool)
        starts_here[1:] = episode[1:] != episode[:-1]
        starts = starts_here.nonzero().flatten()
        ends = torch.cat([starts[1:], torch.tensor([len(episode)])])
        number = starts_here.cumsum(0) - 1
        # First and last row of the episode that each row belongs to.
        self._first_row, self._last_row = starts[number], ends[number] - 1

    def __getattr__(self, name: str) -> Any:
        # A loader's worker process unpickles this object: it has no attributes yet, and pickle
        # asks for some of its own.
        if name.startswith("__") or "_dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        batch = self._take(torch.tensor([index]))
        return {key: value[0] for key, value in batch.items()}

    def __getitems__(self, indices: list[int]) -> list[CollatedBatch]:
        return [self._take(torch.tensor(indices))]

    def _take(self, rows: torch.Tensor) -> CollatedBatch:
        batch = CollatedBatch({name: column[rows] for name, column in self._columns.items()})
        first, last = self._first_row[rows, None], self._last_row[rows, None]
        for name, offsets in self._windows.items():
            window = rows[:, None] + torch.tensor(offsets)
            batch[f"{name}_is_pad"] = (window < first) | (window > last)
            batch[name] = self._columns[name][window.clamp(first, last)]
        batch["task"] = [self._task_names[number] for number in batch["task_index"].tolist()]
        return batch


def _column(column: Any, sample: torch.Tensor) -> torch.Tensor:
    """An Arrow column as one tensor, in the shape and type that LeRobot gives a row."""
    values = column.combine_chunks()
    while hasattr(values.type, "value_type"):
        values = values.flatten()
    flat = torch.tensor(values.to_numpy(zero_copy_only=False), dtype=sample.dtype)
    return flat.reshape(-1, *sample.shape)


def correct(statistics: dict[str, dict[str, Any]], corrections: dict[str, Any]) -> None:
    """Replace single numbers, by feature, name and column."""
    for key, names in corrections.items():
        for name, columns in names.items():
            for column, value in columns.items():
                statistics[key][name][int(column)] = value


def rename(statistics: dict[str, dict[str, Any]], names: dict[str, str]) -> None:
    """Give the statistics of a feature also under the policy's name for it.

    LeRobot renames features before it normalises them, but not their statistics, and then leaves
    them as they are.
    """
    # All are read before any is written: names may be swapped.
    statistics.update({new: statistics[old] for old, new in names.items() if old in statistics})


def main() -> None:
    changes = json.loads(os.environ.get(CHANGES, "{}"))
    corrections = changes.get("statistics", {})
    if is_known_lerobot():
        make_datasets = lerobot_train.make_train_eval_datasets

        def make_changed(config: Any) -> Any:
            train, evaluation = make_datasets(config)
            if corrections:
                correct(train.meta.stats, corrections)
            rename(train.meta.stats, config.rename_map)
            served = in_memory(train) if changes.get("memory_data", True) else train
            if served is not train:
                logging.info("State data is served from memory.")
            return served, evaluation

        lerobot_train.make_train_eval_datasets = make_changed
    elif corrections or any(flag.startswith("--rename_map=") for flag in sys.argv):
        sys.exit("This LeRobot is not known: the dataset's statistics cannot be corrected for it.")
    lerobot_train.main()


if __name__ == "__main__":
    main()
