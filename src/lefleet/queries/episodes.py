"""Recorded episodes: lists of them, and one whole with its tracks, films and labels."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from lefleet.errors import BadInput, LeFleetError, Unknown
from lefleet.ledger import Ledger
from lefleet.queries.dataset_files import (
    EpisodeEntry,
    LeRobotInfo,
    first_line,
    is_recording,
    path_in,
    require_file,
    shown,
)
from lefleet.queries.datasets import DatasetPlace, info_of, place_of, tasks_of
from lefleet.queries.episode_index import index_of
from lefleet.queries.labels import LabelCard, LabelEntry, history, label_card, labels_of
from lefleet.queries.paging import DEFAULT_LIMIT, Page, checked
from lefleet.queries.tracks import Tracks, read_tracks
from lefleet.recording import FrameProvenance, read_provenance
from lefleet.recording.labels import EpisodeLabel, standing
from lefleet.recording.provenance import FILE as PROVENANCE
from lefleet.records.border import Strict

LabelFilter = Literal["", "success", "failure", "unlabelled"]
_LABELS: tuple[LabelFilter, ...] = get_args(LabelFilter)
_LARGEST_PROVENANCE = 1 << 40
_MOST_FRAMES = 100_000
"""Of an episode whose frames are counted by where they came from."""


class EpisodeVideo(Strict, frozen=True, kw_only=True):
    """The part of a file that is the film of an episode."""

    camera: str
    from_s: float
    to_s: float


class FrameCounts(Strict, frozen=True, kw_only=True):
    """Where the actions of an episode came from, by frames."""

    server: int
    fallback: int
    """The robot had no fresh action."""
    other: int
    """A person, or a policy on the robot itself."""


class EpisodeCard(Strict, frozen=True, kw_only=True):
    """An episode at a glance."""

    index: int
    task: str
    length: int
    """Frames."""
    seconds: float
    label: LabelCard | None
    """The one that counts."""
    frames: FrameCounts | None
    """None where nothing is known of where its actions came from."""
    is_corrected: bool
    """A person took over from the server's policy."""
    videos: tuple[EpisodeVideo, ...]
    problem: str
    """What cannot be read of it."""


class ActingCheckpoint(Strict, frozen=True, kw_only=True):
    """A checkpoint that drove the robot."""

    digest: str
    server: str
    frames: int
    run: str
    """Empty where the ledger does not know it."""
    cycle: int | None


class EpisodeDetail(EpisodeCard, frozen=True, kw_only=True):
    """An episode whole."""

    dataset: str
    """Id of its dataset."""
    episodes: int
    """Of its dataset."""
    history: tuple[LabelEntry, ...]
    """Everything that was said of it, newest first."""
    tracks: Tracks
    checkpoints: tuple[ActingCheckpoint, ...]
    previous: int | None
    """Index of the one before it among those that were asked for."""
    next: int | None
    replay: str
    """The command that replays it in Rerun, with LeRobot's own program."""


def episodes(
    ledger: Ledger,
    workdir: Path,
    folders: Sequence[Path],
    dataset: str,
    *,
    task: str = "",
    label: LabelFilter = "",
    offset: int = 0,
    limit: int = DEFAULT_LIMIT,
) -> Page[EpisodeCard]:
    """Episodes of the dataset of this id, in their order: those of a task, and of a label."""
    offset, limit = checked(offset, limit)
    opened = _Opened(ledger, place_of(ledger, workdir, folders, dataset))
    numbers = opened.selected(task, label)
    shown_ones = numbers[offset : offset + limit]
    entries = opened.entries(shown_ones)
    cards = tuple(opened.card(number, entries.get(number)) for number in shown_ones)
    return Page(items=cards, total=len(numbers), offset=offset)


def episode(
    ledger: Ledger,
    workdir: Path,
    folders: Sequence[Path],
    dataset: str,
    index: int,
    *,
    task: str = "",
    label: LabelFilter = "",
) -> EpisodeDetail:
    """One episode. `task` and `label` say among which ones the previous and next one are."""
    place = place_of(ledger, workdir, folders, dataset)
    opened = _Opened(ledger, place)
    entry = opened.entry(index)
    card = opened.card(index, entry)
    problems, tracks, said = [card.problem], Tracks(), list[LabelEntry]()
    try:
        tracks = read_tracks(place.root, opened.info, entry)
    except LeFleetError as error:
        problems.append(error.problem)
    with suppress(LeFleetError):  # The card says why.
        said = history(place.root, ledger.labels.history(str(place.root), index), index)
    numbers = opened.selected(task, label)
    rows, _ = opened.provenance(index)
    fields = msgspec.structs.asdict(card)
    return EpisodeDetail(
        **{**fields, "problem": " ".join(one for one in problems if one)},
        dataset=dataset,
        episodes=opened.count,
        history=tuple(said),
        tracks=tracks,
        checkpoints=_checkpoints(ledger, rows),
        previous=max((one for one in numbers if one < index), default=None),
        next=min((one for one in numbers if one > index), default=None),
        replay=shlex.join(
            (
                *("lerobot-dataset-viz", "--repo-id", "local/replay"),
                *("--root", str(opened.place.root), "--episode-index", str(index)),
            )
        ),
    )


def video_file(
    ledger: Ledger,
    workdir: Path,
    folders: Sequence[Path],
    dataset: str,
    index: int,
    *,
    camera: str,
) -> tuple[Path, float, float]:
    """The file with an episode's film, and from when to when it is in it, in seconds."""
    opened = _Opened(ledger, place_of(ledger, workdir, folders, dataset))
    info, root = opened.info, opened.place.root
    video = opened.entry(index).videos.get(camera)
    if video is None:
        known = ", ".join(map(shown, info.cameras("video"))) or "none: images are in the data"
        raise Unknown(
            f"camera: {shown(camera)[:80]!r} has no film of episode {index}.",
            f"Cameras with films: {known}.",
        )
    path = path_in(root, info.video_path or "", (video.chunk, video.file), camera)
    if path.suffix != ".mp4" or not path.is_file():
        raise Unknown(
            f"camera: the film of {shown(camera)[:80]!r} is missing.",
            f"Its file was deleted or moved: {path.name} below {root}",
        )
    return path, video.from_s, video.to_s


class _Opened:
    """A dataset, and what was said of its episodes."""

    def __init__(self, ledger: Ledger, place: DatasetPlace) -> None:
        self.place = place
        self.info: LeRobotInfo = info_of(place.root)
        self._index = index_of(place.root)
        self._problem = ""
        self._labels: dict[int, EpisodeLabel] = {}
        try:
            unwritten = ledger.labels.unwritten(str(place.root))
            stacks = standing(labels_of(place.root, unwritten))
            self._labels = {number: stack[-1] for number, stack in stacks.items()}
        except LeFleetError as error:
            self._problem = error.problem
        self.count = self._count()

    def _count(self) -> int:
        """Finished episodes: while one is being saved it is counted already, without metadata."""
        count = self.info.total_episodes
        if count and is_recording(self.place.root) and not self.entries([count - 1]):
            return count - 1
        return count

    def selected(self, task: str, label: LabelFilter) -> Sequence[int]:
        """Indices of the episodes that fit."""
        if label not in _LABELS:
            choices = ", ".join(one for one in _LABELS if one)
            raise BadInput(f"label: {shown(label)[:40]!r} is no label.", f"Use one of {choices}.")
        numbers: Sequence[int] = range(self.count)
        if task and not self._is_only_task(task):
            found = self._index.find(self.info, None)
            numbers = [one for one in numbers if one in found and task in found[one].tasks]
        if label:
            numbers = [one for one in numbers if self._label_word(one) == label]
        return numbers

    def _is_only_task(self, task: str) -> bool:
        """Then nothing has to be read to find its episodes."""
        with suppress(LeFleetError):  # It may be being written.
            return tasks_of(self.place.root) == [task]
        return False

    def _label_word(self, number: int) -> LabelFilter:
        said = self._labels.get(number)
        if said is None or said.success is None:
            return "unlabelled"
        return "success" if said.success else "failure"

    def entries(self, numbers: Sequence[int]) -> dict[int, EpisodeEntry]:
        return self._index.find(self.info, numbers)

    def entry(self, number: int) -> EpisodeEntry:
        """Unknown where there is no such episode."""
        if not 0 <= number < self.count:
            has = f"It has episodes 0 to {self.count - 1}." if self.count else "It has none."
            raise Unknown(f"episode: {self.place.name} has no episode {number}.", has)
        found = self.entries([number])
        if number not in found:
            raise BadInput(f"episode: the metadata of episode {number} cannot be read.")
        return found[number]

    def card(self, number: int, entry: EpisodeEntry | None) -> EpisodeCard:
        said = self._labels.get(number)
        rows, problem = self.provenance(number)
        problems = [problem, self._problem, "" if entry else "Its metadata cannot be read."]
        counts = _frame_counts(rows)
        videos = entry.videos if entry else {}
        return EpisodeCard(
            index=number,
            task=", ".join(entry.tasks) if entry else "",
            length=entry.length if entry else 0,
            seconds=entry.length / self.info.fps if entry else 0.0,
            label=label_card(said) if said else None,
            frames=counts,
            is_corrected=counts is not None and bool(counts.server and counts.other),
            videos=tuple(
                EpisodeVideo(camera=camera, from_s=one.from_s, to_s=one.to_s)
                for camera, one in videos.items()
            ),
            problem=" ".join(one for one in problems if one),
        )

    def provenance(self, number: int) -> tuple[list[FrameProvenance], str]:
        """Where its frames came from, and why that cannot be read."""
        path = self.place.root / PROVENANCE
        try:
            if path.exists():
                require_file(path, _LARGEST_PROVENANCE)
            return read_provenance(self.place.root, number, _MOST_FRAMES), ""
        except (LeFleetError, msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            return [], f"{PROVENANCE}: it cannot be read: {first_line(error)}."


def _frame_counts(rows: Sequence[FrameProvenance]) -> FrameCounts | None:
    if not rows:
        return None
    server = sum(bool(row.session_id) for row in rows)
    fallback = sum(row.is_fallback for row in rows)
    return FrameCounts(server=server, fallback=fallback, other=len(rows) - server - fallback)


def _checkpoints(ledger: Ledger, rows: Sequence[FrameProvenance]) -> tuple[ActingCheckpoint, ...]:
    """In the order in which they first acted."""
    frames: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.digest:
            acted = (row.digest, row.server)
            frames[acted] = frames.get(acted, 0) + 1
    found = []
    for (digest, server), count in frames.items():
        known = ledger.lineage(digest)
        found.append(
            ActingCheckpoint(
                digest=shown(digest),
                server=shown(server),
                frames=count,
                run=known.get("run", ""),
                cycle=known.get("cycle"),
            )
        )
    return tuple(found)
