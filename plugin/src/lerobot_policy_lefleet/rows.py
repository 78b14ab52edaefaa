"""LeRobot's batches as the server's observations: every row is a robot of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lefleet_client.wire import Contract

RowFrame = dict[str, NDArray[Any]]
"""What one robot sees: float32 vectors, uint8 RGB images as height x width x 3."""


class WrongFeatures(ValueError):
    """What is observed or done here is not what the server's policy takes or gives."""


def frames_of(
    batch: Mapping[str, Any], contract: Contract, rename_map: Mapping[str, str]
) -> tuple[RowFrame, ...]:
    """A frame for each row, with exactly the keys of the contract."""
    named = {rename_map.get(key, key): value for key, value in batch.items()}
    columns = {
        key: _vectors(key, _tensor(key, named), len(names))
        for key, names in contract.vectors.items()
    }
    columns |= {key: _images(key, _tensor(key, named)) for key in contract.cameras}
    rows = {key: len(values) for key, values in columns.items()}
    if len(set(rows.values())) != 1:
        raise WrongFeatures(f"the batch has a different number of rows by key: {rows}")
    return tuple(
        {key: values[row] for key, values in columns.items()} for row in range(max(rows.values()))
    )


def tasks_of(batch: Mapping[str, Any], rows: int) -> tuple[str, ...]:
    """The task of each row; empty where the batch has none, and the server's default holds."""
    task = batch.get("task") or ""
    tasks = (task,) * rows if isinstance(task, str) else tuple(task)
    if len(tasks) != rows:
        raise WrongFeatures(f"task: {len(tasks)} tasks for {rows} rows")
    return tasks


def first_task(batch: Mapping[str, Any]) -> str:
    """The task that a session is opened with."""
    task = batch.get("task") or ""
    return task if isinstance(task, str) else str(task[0])


def _tensor(key: str, named: Mapping[str, Any]) -> torch.Tensor:
    value = named.get(key)
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    observed = ", ".join(sorted(name for name in named if name.startswith("observation.")))
    raise WrongFeatures(
        f"{key}: the server's policy needs it, and observed is only {observed or 'nothing'}; "
        "--policy.rename_map gives keys another name"
    )


def _vectors(key: str, values: torch.Tensor, size: int) -> NDArray[Any]:
    if values.ndim != 2 or values.shape[1] != size:
        raise WrongFeatures(
            f"{key}: {tuple(values.shape)} is observed, the server's policy takes (rows, {size})"
        )
    return np.asarray(values.to(torch.float32).numpy())


def _images(key: str, values: torch.Tensor) -> NDArray[Any]:
    """Bytes again: what was made from bytes by dividing by 255 comes back exactly."""
    if values.ndim != 4 or values.shape[1] != 3:
        raise WrongFeatures(
            f"{key}: {tuple(values.shape)} is observed, an image is (rows, 3, height, width)"
        )
    if values.dtype != torch.uint8:
        if not (values.min() >= 0 and values.max() <= 1):
            raise WrongFeatures(f"{key}: pixels as floats are 0 to 1")
        values = (values.to(torch.float32) * 255).round().to(torch.uint8)
    return values.permute(0, 2, 3, 1).contiguous().numpy()
