"""What was said of recorded episodes: outcomes.jsonl beside a dataset and the ledger, as one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger.labels import LabelRow
from lefleet.queries.dataset_files import first_line, require_file, shown, stamp
from lefleet.queries.kept import Kept
from lefleet.recording.labels import FILE, EpisodeLabel, read_labels, standing, utc_text
from lefleet.records.border import Strict

LabelOutcome = Literal["success", "failure", "unknown"]
_OUTCOMES: dict[bool | None, LabelOutcome] = {True: "success", False: "failure", None: "unknown"}
_LARGEST = 64_000_000


class LabelCard(Strict, frozen=True, kw_only=True):
    """A label, for a person."""

    outcome: LabelOutcome
    progress: float | None
    """How far it came, from 0 to 1."""
    who: str
    """The person, or the robot's environment; may be empty."""
    source: str
    """environment, key, command, page or recovery."""
    note: str
    at: float | None
    """Seconds since 1970."""


class LabelEntry(LabelCard, frozen=True, kw_only=True):
    """A label among all that were said of its episode."""

    is_undo: bool
    """It takes back the one before; then `outcome` says nothing."""
    counts: bool
    """Whether this is the one that counts now."""
    is_in_ledger: bool
    is_in_dataset: bool
    """Whether it is in the dataset's outcomes.jsonl. A label that is only in the ledger counts if a
    kill kept it from the dataset, and not if the dataset was replaced since."""


def labels_of(root: Path, unwritten: Sequence[LabelRow]) -> list[EpisodeLabel]:
    """Everything that was said of the dataset's episodes, oldest first. `unwritten` are rows of the
    ledger that a kill may have kept from outcomes.jsonl."""
    lines = _kept_lines(root)
    mine = [row for row in unwritten if row.dataset == str(root)]
    if not mine:
        return lines
    written = {one.key for one in lines if one.key}
    return [*lines, *(as_label(row) for row in mine if row.key not in written)]


_LINES: Kept[list[EpisodeLabel]] = Kept(100)


def _kept_lines(root: Path) -> list[EpisodeLabel]:
    return _LINES.get(root, stamp(root / FILE), lambda: _lines(root))


def _lines(root: Path) -> list[EpisodeLabel]:
    path = root / FILE
    try:
        if path.exists():
            require_file(path, _LARGEST)
        return read_labels(root)
    except OSError as error:
        raise BadInput(f"{FILE}: it cannot be read: {first_line(error)}.") from error


def as_label(row: LabelRow) -> EpisodeLabel:
    """A row of the ledger as the line that outcomes.jsonl has, or will have."""
    fields = row._asdict()
    for name in ("id", "dataset", "is_written"):
        del fields[name]
    fields |= {"key": row.key or "", "at": utc_text(row.at)}
    return msgspec.convert(fields, EpisodeLabel)


def label_card(label: EpisodeLabel) -> LabelCard:
    return LabelCard(**_fields(label))


def history(root: Path, rows: Sequence[LabelRow], episode: int) -> list[LabelEntry]:
    """Of one episode, newest first; `rows` are those that the ledger has of it."""
    lines = [one for one in _kept_lines(root) if one.episode == episode]
    in_dataset, in_ledger = {one.key for one in lines}, {row.key for row in rows}
    others = sorted((row for row in rows if row.key not in in_dataset), key=lambda row: row.id)
    lost = [as_label(row) for row in others if row.is_written]
    current = [*lines, *(as_label(row) for row in others if not row.is_written)]
    stack = standing(current).get(episode, [None])
    entries = [
        LabelEntry(
            **_fields(one),
            is_undo=one.is_undo,
            counts=one is stack[-1],
            is_in_ledger=one.key in in_ledger,
            is_in_dataset=one.key in in_dataset,
        )
        for one in (*lost, *current)
    ]
    entries.reverse()
    return sorted(entries, key=lambda one: -(one.at or 0.0))


def _fields(label: EpisodeLabel) -> dict[str, Any]:
    return {
        "outcome": _OUTCOMES[label.success],
        "progress": label.progress,
        "who": shown(label.who),
        "source": label.source,
        "note": shown(label.note),
        "at": _seconds(label.at),
    }


def _seconds(at: str) -> float | None:
    try:
        moment = datetime.fromisoformat(at)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
