"""What a run starts from: whether its data and its checkpoints are on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lefleet.errors import BadInput
from lefleet.loop.existing_data import require_data
from lefleet.loop.findings import CheckResult, refused
from lefleet.records import DatasetSource, RunConfig
from lefleet.stages.contract import INFO, read_info
from lefleet.stages.references import is_hub_id


def data_found(
    config: RunConfig, source: DatasetSource, info: dict[str, Any] | None
) -> CheckResult:
    """Whether an existing dataset is on this machine, or can be fetched, and suffices."""
    try:
        require_data(config)
    except BadInput as error:
        return refused(error)
    if info is not None:
        where, episodes = source.root or source.repo_id, info.get("total_episodes", 0)
        found = f"{where}: {episodes} episodes, {info.get('fps', 0)} frames per second"
        return CheckResult(name="collect", state="ok", found=found)
    name = "collect.repo_id"
    if not is_hub_id(source.repo_id):
        return CheckResult(
            name=name,
            state="problem",
            found=f"{source.repo_id!r} names no dataset",
            remedy="Name one on the hub as user/name, or give root.",
        )
    if _is_offline():
        return CheckResult(
            name=name,
            state="problem",
            found=f"{source.repo_id} is not on this machine, and HF_HUB_OFFLINE is set",
            remedy="Unset HF_HUB_OFFLINE, or fetch it elsewhere and give root.",
        )
    return CheckResult(
        name=name,
        state="warning",
        found=f"{source.repo_id} is not on this machine: it is fetched from the hub when the run "
        "begins, and was not compared with the environment",
    )


def start_found(name: str, init: str) -> CheckResult:
    """Whether the checkpoint to start from is on this machine."""
    if Path(init).is_dir():
        return CheckResult(name=name, state="ok", found=init)
    if not is_hub_id(init):
        return CheckResult(
            name=name,
            state="problem",
            found=f"{init} is neither a folder nor a checkpoint on the hub",
            remedy="Name a train stage folder, a pretrained_model folder, or user/name on the hub.",
        )
    kept = _hub_cache() / f"models--{init.replace('/', '--')}" / "snapshots"
    if any(kept.glob("*/config.json")):
        return CheckResult(name=name, state="ok", found=f"{init}, in the hub's cache")
    if _is_offline():
        return CheckResult(
            name=name,
            state="problem",
            found=f"{init} is not on this machine, and HF_HUB_OFFLINE is set",
            remedy=f"Fetch it where there is a network: hf download {init}",
        )
    return CheckResult(
        name=name,
        state="warning",
        found=f"{init} is not on this machine: it is fetched from the hub before the training",
    )


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def dataset_info(source: DatasetSource) -> dict[str, Any] | None:
    """The dataset's description, where it is on this machine."""
    found = (folder for folder in _folders(source) if (folder / INFO).is_file())
    return next((read_info(folder) for folder in found), None)


def _folders(source: DatasetSource) -> Iterator[Path]:
    """Where LeRobot looks for a dataset, or keeps one that it fetched."""
    if source.root:
        yield Path(source.root)
        return
    hub = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    home = Path(os.environ.get("HF_LEROBOT_HOME", hub / "lerobot")).expanduser()
    yield home / source.repo_id
    kept = home / "hub" / f"datasets--{source.repo_id.replace('/', '--')}" / "snapshots"
    yield from sorted(kept.glob("*"))
