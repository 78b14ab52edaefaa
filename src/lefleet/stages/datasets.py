"""LeRobotDatasets: write one from kept episodes, describe one, merge two.

LeRobot's own classes and tools do the work; this is the only module of the stages that knows them.
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
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE

from lefleet.errors import BadInput, StageFailed
from lefleet.records import AddedData, AttemptCounts, DatasetRecord
from lefleet.rollouts import Finished
from lefleet.sim.encode import FPS
from lefleet.stages.coverage import task_text
from lefleet.stages.digest import dataset_digest
from lefleet.stages.layout import FEATURES, ROBOT_TYPE
from lefleet.stages.progress import Progress, Update

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
) -> DatasetRecord:
    """A LeRobotDataset at `root` from frames that workers wrote."""
    dataset = LeRobotDataset.create(
        repo_id=f"{LOCAL}/{root.name}",
        fps=FPS,
        features=FEATURES,
        root=root,
        robot_type=ROBOT_TYPE,
        use_videos=False,
    )
    for count, episode in enumerate(episodes, 1):
        with np.load(episode.frames) as frames:
            columns = frames["state"], frames["environment"], frames["action"]
        for state, environment, action in zip(*columns, strict=True):
            dataset.add_frame(
                {
                    OBS_STATE: state,
                    OBS_ENV_STATE: environment,
                    ACTION: action,
                    "task": task_text(episode.task),
                }
            )
        dataset.save_episode()
        progress(Update(count, len(episodes), "episodes written"))
    dataset.finalize()
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
    if not (root / "meta" / "info.json").is_file():
        raise BadInput(
            f"root: {root} is not a LeRobotDataset (it has no meta/info.json).",
            "Name the folder that holds data/ and meta/.",
        )
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
