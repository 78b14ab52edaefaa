"""LeRobotDatasets: write one from kept episodes, select episodes of one, describe one, merge some.

LeRobot's own classes and tools do the work; no other module of the stages knows its datasets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.datasets.aggregate import aggregate_datasets
from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
from lerobot.datasets.dataset_tools import split_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.utils.constants import OBS_ENV_STATE, OBS_STATE

from lefleet.errors import BadInput, StageFailed
from lefleet.records import AddedData, AttemptCounts, DatasetRecord, ExistingDataset
from lefleet.rollouts import Finished
from lefleet.stages.contract import OWN_LAYOUT, DataLayout
from lefleet.stages.digest import dataset_digest
from lefleet.stages.progress import DIGESTING, Progress, Update
from lefleet.stages.selection import choose_episodes, require_dataset

_OLDER = {"state": OBS_STATE, "environment": OBS_ENV_STATE}
"""Names that workers of older versions gave to columns of frames."""
LOCAL = "local"
"""Owner part of the repo id of datasets that live on this machine only."""


def write_dataset(
    root: Path,
    episodes: Sequence[Finished],
    progress: Progress,
    *,
    source: str,
    tallies: Mapping[str, AttemptCounts],
    parents: Iterable[str] = (),
    layout: DataLayout = OWN_LAYOUT,
) -> DatasetRecord:
    """A LeRobotDataset at `root` from frames that workers wrote."""
    progress(Update(0, len(episodes), "episodes written"))
    dataset = LeRobotDataset.create(
        repo_id=f"{LOCAL}/{root.name}",
        fps=layout.fps,
        features=layout.features,
        root=root,
        robot_type=layout.robot_type,
        use_videos=layout.has_videos,
    )
    for count, episode in enumerate(episodes, 1):
        text = layout.text(episode.task)
        with np.load(episode.frames) as frames:
            columns = {_OLDER.get(key, key): frames[key] for key in frames.files}
        for row in zip(*columns.values(), strict=True):
            dataset.add_frame({**dict(zip(columns, row, strict=True)), "task": text})
        dataset.save_episode()
        progress(Update(count, len(episodes), "episodes written"))
    dataset.finalize()
    progress(DIGESTING)
    metadata = local_metadata(root)
    return describe_dataset(
        metadata, range(len(episodes)), source=source, tallies=tallies, parents=parents
    )


def describe_dataset(
    metadata: LeRobotDatasetMetadata,
    episodes: Iterable[int],
    *,
    source: str,
    tallies: Mapping[str, AttemptCounts] | None = None,
    parents: Iterable[str] = (),
    added: AddedData | None = None,
) -> DatasetRecord:
    """The record of `episodes` of a dataset whose files are on disk."""
    used = tuple(episodes)
    root = Path(metadata.root)
    lengths = metadata.episodes["length"]
    texts = episode_tasks(metadata)
    return DatasetRecord(
        repo_id=metadata.repo_id,
        root=str(root),
        revision=metadata.revision or "",
        episodes=used,
        digest=dataset_digest(
            _info(metadata),
            used,
            {int(row.task_index): str(text) for text, row in metadata.tasks.iterrows()},
            sorted({root / metadata.get_data_file_path(number) for number in used}),
            {
                root / metadata.get_video_file_path(number, key)
                for number in used
                for key in metadata.video_keys
            },
        ),
        fps=int(metadata.fps),
        frames=sum(int(lengths[number]) for number in used),
        tasks=dict(Counter(texts[number] for number in used)),
        source=source,
        tallies=dict(tallies or {}),
        parents=tuple(parents),
        total_episodes=int(metadata.total_episodes),
        added=added,
    )


def local_metadata(root: Path, repo_id: str = "") -> LeRobotDatasetMetadata:
    """Metadata of a dataset folder; BadInput when it is none."""
    require_dataset(root)
    try:
        return LeRobotDatasetMetadata(repo_id or f"{LOCAL}/{root.name}", root=root)
    except Exception as error:
        raise BadInput(f"root: {root} cannot be read as a LeRobotDataset: {error}.") from error


def episode_tasks(metadata: LeRobotDatasetMetadata) -> list[str]:
    """Task text of every episode; one with several tasks counts for its first."""
    return [texts[0] if texts else "" for texts in metadata.episodes["tasks"]]


def merge(parts: Sequence[DatasetRecord], root: Path, scratch: Path) -> LeRobotDatasetMetadata:
    """One dataset at `root` with the used episodes of all `parts`, in order."""
    roots = [
        Path(part.root)
        if len(part.episodes) == local_metadata(Path(part.root)).total_episodes
        else _extract(part, scratch / f"part_{number}")
        for number, part in enumerate(parts)
    ]
    try:
        aggregate_datasets(
            repo_ids=[f"{LOCAL}/{number}" for number in range(len(parts))],
            aggr_repo_id=f"{LOCAL}/{root.name}",
            roots=roots,
            aggr_root=root,
        )
    except ValueError as error:
        raise StageFailed(
            f"These datasets cannot be merged: {error}.",
            "They need the same features, fps and robot type.",
        ) from error
    return local_metadata(root)


def _extract(part: DatasetRecord, folder: Path) -> Path:
    """A copy of only the episodes in use: LeRobot merges whole datasets."""
    dataset = LeRobotDataset(part.repo_id, root=part.root)
    split_dataset(dataset, {"used": list(part.episodes)}, output_dir=folder)
    return folder / "used"


def _info(metadata: LeRobotDatasetMetadata) -> dict[str, Any]:
    return {"fps": int(metadata.fps), "features": metadata.features}


def select(request: ExistingDataset, progress: Progress) -> DatasetRecord:
    """The record of the chosen episodes; nothing is copied."""
    if not request.repo_id and not request.root:
        raise BadInput("repo_id: neither repo_id nor root is given.", "Name a hub id or a folder.")
    if request.root:
        metadata = local_metadata(Path(request.root).resolve(), request.repo_id)
    else:
        progress(Update.phase(f"downloading {request.repo_id}"))
        metadata = _hub_metadata(request.repo_id, request.revision)
    texts = episode_tasks(metadata)
    chosen = choose_episodes(texts, {"robot_type": metadata.robot_type}, request)
    if not request.root:
        LeRobotDataset(request.repo_id, revision=request.revision or None, episodes=list(chosen))
    progress(DIGESTING)
    return describe_dataset(metadata, chosen, source="dataset")


def _hub_metadata(repo_id: str, revision: str) -> LeRobotDatasetMetadata:
    try:
        return LeRobotDatasetMetadata(repo_id, revision=revision or None)
    except Exception as error:
        raise BadInput(
            f"repo_id: {repo_id} could not be loaded from the hub ({type(error).__name__}).",
            "Check the name and the network, or give a local folder with --root.",
        ) from error
