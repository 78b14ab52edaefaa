"""How each episode ended: outcomes.jsonl beside a dataset, one line per label.

A line is never changed. A later label of an episode is another line, and the newest counts; taking
a label back is a line too.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from lefleet.errors import BadInput, Unknown
from lefleet.recording.files import append_lines, finished_lines
from lefleet.recording.state import finished_episodes

FILE = "outcomes.jsonl"

OutcomeSource = Literal["environment", "key", "command", "page", "recovery"]
"""Who or what said it. `recovery` takes back labels of episodes that a kill left unfinished."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an episode ended, as its environment or a person sees it."""

    success: bool | None = None
    """None: nobody knows."""
    progress: float | None = None
    """How far it came, from 0 to 1."""
    source: OutcomeSource
    who: str = ""
    """The person, or the robot's environment."""
    note: str = ""


class EpisodeLabel(Outcome, frozen=True, kw_only=True, omit_defaults=True):
    """One line of outcomes.jsonl."""

    episode: int
    at: str
    """UTC, for instance 2026-01-31T12:00:00.123Z."""
    is_undo: bool = False
    """It takes back the last label of its episode that is not taken back yet."""
    key: str = ""
    """Of the request that made it, if that may be repeated; the ledger's row has the same."""


def label(
    root: Path,
    episode: int,
    success: bool | None,
    source: OutcomeSource,
    who: str,
    *,
    progress: float | None = None,
    note: str = "",
) -> EpisodeLabel:
    """Say how a finished episode ended; it replaces what was said before."""
    require_episode(root, episode)
    outcome = Outcome(success=success, progress=progress, source=source, who=who, note=note)
    return add_label(root, episode, outcome)


def undo_label(
    root: Path, source: OutcomeSource, who: str, *, episode: int | None = None, note: str = ""
) -> EpisodeLabel:
    """Take back the last label, of one episode or of all; what was said before it counts again."""
    labels = read_labels(root)
    candidates = [
        stack[-1] for number, stack in standing(labels).items() if episode in (None, number)
    ]
    if not candidates:
        where = "any episode" if episode is None else f"episode {episode}"
        raise BadInput(f"{root} has no label of {where} to take back.")
    newest = max(candidates, key=labels.index)
    outcome = Outcome(source=source, who=who, note=note)
    return add_label(root, newest.episode, outcome, is_undo=True)


def outcomes(root: Path) -> dict[int, EpisodeLabel]:
    """The label that counts, for each episode that has one."""
    stacks = standing(read_labels(root))
    return {episode: stack[-1] for episode, stack in sorted(stacks.items())}


def add_label(
    root: Path, episode: int, outcome: Outcome, *, is_undo: bool = False, key: str = ""
) -> EpisodeLabel:
    said = msgspec.structs.asdict(outcome)
    now = utc_text(time.time())
    row = EpisodeLabel(**said, episode=episode, at=now, is_undo=is_undo, key=key)
    write_label(root, row)
    return row


def write_label(root: Path, row: EpisodeLabel) -> None:
    append_lines(root / FILE, [msgspec.json.encode(row)])


def utc_text(at: float) -> str:
    """A time in seconds since 1970, as labels have it."""
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def take_back_unfinished(root: Path, finished: int) -> None:
    """Labels of episodes that are not there: the next recording gives their numbers to others."""
    outcome = Outcome(source="recovery", note="the episode was not finished")
    for episode, stack in standing(read_labels(root)).items():
        for _ in stack if episode >= finished else ():
            add_label(root, episode, outcome, is_undo=True)


def read_labels(root: Path) -> list[EpisodeLabel]:
    """Everything that was said, oldest first."""
    decoder = msgspec.json.Decoder(EpisodeLabel)
    labels = []
    for number, line in enumerate(finished_lines(root / FILE), 1):
        try:
            labels.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{root / FILE}, line {number}: {error}.") from error
    return labels


def standing(labels: Iterable[EpisodeLabel]) -> dict[int, list[EpisodeLabel]]:
    """The labels of each episode that are not taken back, oldest first."""
    stacks: dict[int, list[EpisodeLabel]] = defaultdict(list)
    for row in labels:
        stack = stacks[row.episode]
        if not row.is_undo:
            stack.append(row)
        elif stack:
            stack.pop()
    return {episode: stack for episode, stack in stacks.items() if stack}


def require_episode(root: Path, episode: int) -> None:
    """Unknown where the dataset has no such finished episode."""
    count = finished_episodes(root)
    if not 0 <= episode < count:
        known = f"it has episodes 0 to {count - 1}" if count else "it has no finished episode"
        raise Unknown(f"{root} has no episode {episode}: {known}.", "They are counted from 0.")
