"""Say how a recorded episode ended: in the ledger and in the dataset, whatever is killed between.

The ledger's row comes first, then the line in the dataset's outcomes.jsonl, which has the row's
key. A row without its line is completed by the next label of that dataset, before anything else, so
that both have the same order.
"""

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Literal
from uuid import uuid4

from lefleet.actions.people import words_of
from lefleet.errors import BadInput, Conflict, LeFleetError
from lefleet.ledger import Ledger, open_ledger
from lefleet.queries.datasets import canonical
from lefleet.queries.labels import as_label
from lefleet.recording.files import locked
from lefleet.recording.labels import (
    FILE,
    EpisodeLabel,
    Outcome,
    OutcomeSource,
    add_label,
    read_labels,
    require_episode,
    standing,
    write_label,
)
from lefleet.records.border import Strict

LabelWord = Literal["success", "failure", "undo"]
_SUCCESS: dict[LabelWord, bool | None] = {"success": True, "failure": False, "undo": None}
_LOCK = ".labels.lock"
"""In a dataset's folder: locked while somebody labels one of its episodes."""
_LONGEST_KEY = 200


class LabelResult(Strict, frozen=True, kw_only=True):
    """What came of a label."""

    added: EpisodeLabel
    counts: EpisodeLabel | None
    """The label of the episode that counts now; None where there is none."""
    is_new: bool
    """False where a request with the same key had added it before."""


def label_episode(
    workdir: Path | None,
    root: Path,
    episode: int,
    outcome: LabelWord,
    *,
    source: OutcomeSource,
    who: str,
    note: str = "",
    key: str = "",
) -> LabelResult:
    """Label an episode, or take its last label back; a later label is a new one.

    A request that is repeated with the same `key` adds nothing; with other content it is a
    Conflict. Without a `workdir` the label is only in the dataset, otherwise also in its ledger,
    which is created where there is none.
    """
    root = canonical(root)
    require_episode(root, episode)
    fields = _Wanted(
        episode=episode,
        success=_SUCCESS[outcome],
        is_undo=outcome == "undo",
        source=source,
        who=words_of(who, "who"),
        note=words_of(note, "note"),
        key=_checked_key(key),
    )
    opened = nullcontext(None) if workdir is None else closing(open_ledger(workdir))
    try:
        with opened as ledger, locked(root / _LOCK):
            return _label(ledger, root, fields)
    except OSError as error:
        raise LeFleetError(
            f"The label could not be written to {root / FILE}: {error.strerror}.",
            "Check the folder's permissions and the free space of its disk, then label it again.",
        ) from error


class _Wanted(Strict, frozen=True, kw_only=True):
    """What is to be said."""

    episode: int
    success: bool | None
    is_undo: bool
    source: OutcomeSource
    who: str
    note: str
    key: str

    def require_same(self, there: EpisodeLabel) -> None:
        mine = (self.episode, self.success, self.is_undo, self.who)
        if mine != (there.episode, there.success, there.is_undo, there.who):
            raise Conflict(
                f"key: {self.key} is that of another label, of episode {there.episode}.",
                "Use a key of its own for each label.",
            )


def _label(ledger: Ledger | None, root: Path, wanted: _Wanted) -> LabelResult:
    """The dataset's lock is held."""
    if ledger is not None:
        _complete(ledger, root)
    there = _with_key(ledger, root, wanted.key)
    if there is not None:
        wanted.require_same(there)
        return _result(root, there, is_new=False)
    if wanted.is_undo and wanted.episode not in standing(read_labels(root)):
        raise BadInput(f"{root} has no label of episode {wanted.episode} to take back.")
    if ledger is None:
        outcome = Outcome(
            success=wanted.success, source=wanted.source, who=wanted.who, note=wanted.note
        )
        added = add_label(root, wanted.episode, outcome, is_undo=wanted.is_undo, key=wanted.key)
        return _result(root, added, is_new=True)
    row, _ = ledger.labels.add(
        str(root),
        wanted.episode,
        wanted.success,
        is_undo=wanted.is_undo,
        source=wanted.source,
        who=wanted.who,
        note=wanted.note,
        key=wanted.key or uuid4().hex,
    )
    try:
        _complete(ledger, root)
    except OSError:
        ledger.labels.drop(row)
        raise
    return _result(root, as_label(row), is_new=True)


def _with_key(ledger: Ledger | None, root: Path, key: str) -> EpisodeLabel | None:
    if not key:
        return None
    row = ledger.labels.find(key) if ledger is not None else None
    if row is not None and row.dataset != str(root):
        raise Conflict(
            f"key: {key} is that of a label of another dataset.",
            "Use a key of its own for each label.",
        )
    if row is not None:
        return as_label(row)
    return next((one for one in read_labels(root) if one.key == key), None)


def _complete(ledger: Ledger, root: Path) -> None:
    """Write the lines of rows that have none, in the order of the rows."""
    rows = ledger.labels.unwritten(str(root))
    written = {one.key for one in read_labels(root)} if rows else set()
    for row in rows:
        if row.key not in written:
            write_label(root, as_label(row))
        ledger.labels.mark_written(row)


def _result(root: Path, added: EpisodeLabel, *, is_new: bool) -> LabelResult:
    stack = standing(read_labels(root)).get(added.episode)
    return LabelResult(added=added, counts=stack[-1] if stack else None, is_new=is_new)


def _checked_key(key: str) -> str:
    if len(key) > _LONGEST_KEY or not key.isprintable():
        raise BadInput(
            "key: it is too long, or has characters that cannot be printed.",
            f"Use at most {_LONGEST_KEY} printable characters, for instance a UUID.",
        )
    return key
