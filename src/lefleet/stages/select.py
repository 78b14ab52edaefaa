"""Episodes of an existing LeRobotDataset: only the tasks asked for, the same number of each."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from lefleet.errors import BadInput
from lefleet.records import DatasetRecord, ExistingDataset
from lefleet.stages.coverage import require_coverage, task_name, wanted_texts
from lefleet.stages.datasets import describe_dataset, episode_tasks, local_metadata


def select(request: ExistingDataset) -> DatasetRecord:
    """The record of the chosen episodes; nothing is copied."""
    if not request.repo_id and not request.root:
        raise BadInput("repo_id: neither repo_id nor root is given.", "Name a hub id or a folder.")
    if request.root:
        metadata = local_metadata(Path(request.root).resolve(), request.repo_id)
    else:
        metadata = _hub_metadata(request.repo_id, request.revision)
    texts = episode_tasks(metadata)
    chosen = choose_episodes(texts, wanted_texts(request.tasks), request)
    if not request.root:
        LeRobotDataset(request.repo_id, revision=request.revision or None, episodes=list(chosen))
    return describe_dataset(metadata, chosen, source="dataset")


def choose_episodes(
    texts: Sequence[str], wanted: Sequence[str], request: ExistingDataset
) -> tuple[int, ...]:
    """Indices of the chosen episodes, in order; as many of every wanted task."""
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        by_text[text].append(number)
    available = {text: len(numbers) for text, numbers in by_text.items()}
    require_coverage(available, wanted, request.root or request.repo_id)
    rarest = min(wanted, key=lambda text: available[text])
    count = request.episodes_per_task or available[rarest]
    if count > available[rarest]:
        raise BadInput(
            f"episodes_per_task: {count} are asked for, but {task_name(rarest)} has only "
            f"{available[rarest]}.",
            f"Ask for at most {available[rarest]}, or 0 for as many as the rarest task has.",
        )
    shuffled = random.Random(request.seed)
    return tuple(
        sorted(number for text in wanted for number in shuffled.sample(by_text[text], count))
    )


def _hub_metadata(repo_id: str, revision: str) -> LeRobotDatasetMetadata:
    try:
        return LeRobotDatasetMetadata(repo_id, revision=revision or None)
    except Exception as error:
        raise BadInput(
            f"repo_id: {repo_id} could not be loaded from the hub ({type(error).__name__}).",
            "Check the name and the network, or give a local folder with --root.",
        ) from error
