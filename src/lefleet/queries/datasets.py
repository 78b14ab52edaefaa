"""Datasets of runs and of robots: which there are, and what is in them at a glance."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lefleet.errors import LeFleetError, Unknown, why_not_a_folder
from lefleet.ledger import Ledger
from lefleet.ledger.labels import LabelRow
from lefleet.queries.dataset_files import (
    TASKS,
    LeRobotInfo,
    is_recording,
    read_lerobot_info,
    read_tasks,
    shown,
    stamp,
)
from lefleet.queries.kept import Kept
from lefleet.queries.labels import labels_of
from lefleet.recording.labels import standing
from lefleet.recording.state import FILE as RECORDING
from lefleet.recording.state import INFO
from lefleet.records.border import Strict

DEFAULT_FOLDERS = (Path("datasets"),)
"""Where robots record, by default."""
_DEEPEST = 4
_MOST_ENTRIES = 20_000
"""Of folders that are looked through, so that a folder of images does not stop a page."""
_MOST_TASKS = 200


class DatasetUse(Strict, frozen=True, kw_only=True):
    """A stage that made this dataset, or chose episodes of it."""

    run: str
    cycle: int
    stage: str
    digest: str
    episodes: int
    """In use; the folder may have more."""


class CameraCard(Strict, frozen=True, kw_only=True):
    """A camera of a dataset."""

    key: str
    """Names it in the data and in the API."""
    name: str
    """For a person."""
    is_video: bool
    """Otherwise its images are in the data, and there is no film to show."""


class DatasetCard(Strict, frozen=True, kw_only=True):
    """A dataset at a glance."""

    id: str
    """Names it on the pages and in the API; never its path."""
    name: str
    root: str
    uses: tuple[DatasetUse, ...]
    """Stages of runs, oldest first; none of a recording that no run has used."""
    episodes: int
    frames: int
    fps: float
    """0 where it cannot be read."""
    tasks: tuple[str, ...]
    cameras: tuple[CameraCard, ...]
    robot_type: str
    successes: int
    failures: int
    unlabelled: int
    """Also those whose outcome was labelled as unknown."""
    is_recording: bool
    """It is being recorded, or a kill ended the recording."""
    is_missing: bool
    problem: str
    """Why it cannot be read, or only in part; empty where all is well."""


class DatasetPlace(Strict, frozen=True, kw_only=True):
    """Where a dataset is, and who used it."""

    root: Path
    name: str
    uses: tuple[DatasetUse, ...] = ()


def dataset_id(root: Path) -> str:
    """The same for every path that leads to one folder."""
    return hashlib.sha256(os.fsencode(canonical(root))).hexdigest()[:12]


def canonical(root: Path) -> Path:
    """Absolute and without links: as the ledger names it in labels."""
    return Path(os.path.realpath(root))


def datasets(
    ledger: Ledger, workdir: Path, folders: Sequence[Path] = DEFAULT_FOLDERS
) -> list[DatasetCard]:
    """Those that the ledger knows, newest first, then those below `folders`, by name.

    Folders are looked through a few levels deep, without following links.
    """
    unwritten = ledger.labels.unwritten()
    return [_card(place, unwritten) for place in places(ledger, workdir, folders).values()]


def dataset(ledger: Ledger, workdir: Path, folders: Sequence[Path], name: str) -> DatasetCard:
    """The dataset of this id."""
    place = place_of(ledger, workdir, folders, name)
    return _card(place, ledger.labels.unwritten(str(place.root)))


def place_of(ledger: Ledger, workdir: Path, folders: Sequence[Path], name: str) -> DatasetPlace:
    """Unknown where there is none of this id."""
    found = places(ledger, workdir, folders).get(name)
    if found is None:
        raise Unknown(
            f"dataset: there is no dataset {shown(name)[:40]!r}.",
            "Datasets are listed on the page Episodes, and by GET /datasets with their ids.",
        )
    return found


def places(ledger: Ledger, workdir: Path, folders: Sequence[Path]) -> dict[str, DatasetPlace]:
    """Where datasets are, by id; nothing of them is read yet."""
    uses: dict[Path, list[DatasetUse]] = {}
    for row in ledger.dataset_uses():
        values = row._asdict()
        root = canonical(Path(values.pop("root")))
        uses.setdefault(root, []).append(DatasetUse(**values))
    base = canonical(workdir)
    found = {
        dataset_id(root): DatasetPlace(root=root, name=_name(root, base, *some), uses=tuple(some))
        for root, some in reversed(uses.items())
    }
    for folder in folders:
        top = canonical(folder)
        for root in sorted(_below(top)):
            place = DatasetPlace(root=root, name=_name(root, top))
            found.setdefault(dataset_id(root), place)
    return found


def _name(root: Path, base: Path, *uses: DatasetUse) -> str:
    """Its path in the folder where people look for it, or what else tells it from others."""
    if root != base and root.is_relative_to(base):
        return shown(str(root.relative_to(base)))
    if not uses:
        return shown(root.name)
    return shown(f"{uses[0].run}/cycle_{uses[0].cycle}/{uses[0].stage}/{root.name}")


def _below(top: Path) -> Iterator[Path]:
    """Folders that look like datasets; none of them is inside another."""
    waiting, left = [(top, 0)], _MOST_ENTRIES
    while waiting:
        folder, depth = waiting.pop()
        if (folder / INFO).is_file():
            yield folder
            continue
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    is_hidden = entry.name.startswith(".")
                    if depth < _DEEPEST and not is_hidden and entry.is_dir(follow_symlinks=False):
                        waiting.append((Path(entry.path), depth + 1))
        except OSError:
            continue


def _card(place: DatasetPlace, unwritten: Sequence[LabelRow]) -> DatasetCard:
    root, problems = place.root, []
    empty = DatasetCard(
        id=dataset_id(root),
        name=place.name,
        root=shown(str(root)),
        uses=place.uses,
        episodes=0,
        frames=0,
        fps=0.0,
        tasks=(),
        cameras=(),
        robot_type="",
        successes=0,
        failures=0,
        unlabelled=0,
        is_recording=is_recording(root),
        is_missing=False,
        problem="",
    )
    if why := why_not_a_folder(root):
        return msgspec.structs.replace(empty, is_missing=True, problem=f"The folder {why}.")
    try:
        info = info_of(root)
    except LeFleetError as error:
        return msgspec.structs.replace(empty, problem=error.problem)
    try:
        tasks = tasks_of(root)
    except LeFleetError as error:
        tasks, problems = [], [error.problem]
    try:
        labels = labels_of(root, unwritten)
    except LeFleetError as error:
        labels, problems = [], [*problems, error.problem]
    counts = Counter(
        stack[-1].success
        for episode, stack in standing(labels).items()
        if 0 <= episode < info.total_episodes
    )
    return msgspec.structs.replace(
        empty,
        episodes=info.total_episodes,
        frames=info.total_frames,
        fps=info.fps,
        tasks=tuple(tasks[:_MOST_TASKS]),
        cameras=tuple(_camera(info, key) for key in info.cameras("video", "image")),
        robot_type=shown(info.robot_type or ""),
        successes=counts[True],
        failures=counts[False],
        unlabelled=info.total_episodes - counts[True] - counts[False],
        problem=" ".join(problems),
    )


def _camera(info: LeRobotInfo, key: str) -> CameraCard:
    name = key.removeprefix("observation.images.") or key
    return CameraCard(
        key=shown(key), name=shown(name), is_video=info.features[key].dtype == "video"
    )


_INFOS: Kept[LeRobotInfo] = Kept(2000)
_TASKS: Kept[list[str]] = Kept(2000)


def tasks_of(root: Path) -> list[str]:
    """Every task text of the dataset; BadInput where they cannot be read."""
    return _TASKS.get(root, stamp(root / TASKS), lambda: read_tasks(root))


def info_of(root: Path) -> LeRobotInfo:
    """What the dataset says of itself; BadInput says what is wrong with it."""
    mark = (stamp(root / INFO), stamp(root / RECORDING))
    return _INFOS.get(root, mark, lambda: read_lerobot_info(root))
