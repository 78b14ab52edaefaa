"""Which episodes of an existing dataset a request takes: decided without LeRobot, in a moment."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lefleet.errors import BadInput, why_not_a_folder
from lefleet.records import ExistingDataset
from lefleet.stages.contract import read_info, require_coverage, task_name, wanted_texts


def choose_episodes(
    texts: Sequence[str], info: Mapping[str, Any], request: ExistingDataset
) -> tuple[int, ...]:
    """Indices of the chosen episodes, in order; as many of every wanted task.

    `texts` is the task text of every episode, `info` the dataset's description of itself. A request
    for more episodes takes all that one for fewer takes, and which of one task are taken does not
    depend on the other tasks.
    """
    by_text = episodes_by_text(texts, info, request)
    rarest = min(by_text, key=lambda text: len(by_text[text]))
    least = len(by_text[rarest])
    count = request.episodes_per_task or least
    for field, asked in (("episodes_per_task", count), ("at_least", request.at_least)):
        if asked > least:
            raise BadInput(
                f"{field}: {asked} are asked for, but {task_name(rarest, info)} has only {least}.",
                f"Ask for at most {least}, or 0 for as many as the rarest task has.",
            )
    chosen: list[int] = []
    for text, numbers in by_text.items():
        shuffled = list(numbers)
        # A key of its own for every task; text, because hashes of tuples differ between processes.
        random.Random(f"{request.seed} {text}").shuffle(shuffled)
        chosen += shuffled[:count]
    return tuple(sorted(chosen))


def episodes_by_text(
    texts: Sequence[str], info: Mapping[str, Any], request: ExistingDataset
) -> dict[str, list[int]]:
    """Episodes of every wanted task; BadInput where one has none."""
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        by_text[text].append(number)
    available = {text: len(numbers) for text, numbers in by_text.items()}
    require_coverage(available, request.tasks, request.root or request.repo_id, info)
    return {text: by_text[text] for text in wanted_texts(request.tasks, info)}


def read_texts(root: Path) -> tuple[list[str], dict[str, Any]]:
    """Task text of every episode of a local dataset, and its description of itself; BadInput where
    `root` is none. An episode with several tasks counts for its first."""
    require_dataset(root)
    import pyarrow.parquet as pq

    columns = ["episode_index", "tasks"]
    texts: dict[int, str] = {}
    try:
        info = read_info(root)
        for file in sorted((root / "meta" / "episodes").rglob("*.parquet")):
            with pq.ParquetFile(file, pre_buffer=False) as parquet:
                for row in parquet.read(columns=columns, use_threads=False).to_pylist():
                    texts[row["episode_index"]] = (row["tasks"] or [""])[0]
    except (OSError, ValueError, KeyError) as error:
        said = " ".join(str(error).split())
        raise BadInput(f"root: {root} cannot be read as a LeRobotDataset: {said}.") from error
    return [texts[number] for number in sorted(texts)], info


def require_dataset(root: Path) -> None:
    """Raise BadInput where `root` is not the folder of a LeRobotDataset."""
    if problem := why_not_a_folder(root):
        raise BadInput(f"root: {root} {problem}.", "Name the folder of a LeRobotDataset.")
    if not (root / "meta" / "info.json").is_file():
        raise BadInput(
            f"root: {root} is not a LeRobotDataset (it has no meta/info.json).",
            "Name the folder that holds data/ and meta/.",
        )
