"""What people said of recorded episodes: one row per label; a later one is another row."""

import time
from typing import NamedTuple

from sqlalchemy import ColumnElement, Engine, delete, false, func, insert, select, update

from lefleet.ledger import schema


class LabelRow(NamedTuple):
    """One label."""

    id: int
    key: str | None
    """Of the request that made it, so that one which is repeated is known."""
    dataset: str
    """Its folder, absolute and without links."""
    episode: int
    success: bool | None
    is_undo: bool
    """It takes back the last label of the episode that is not taken back yet."""
    source: str
    who: str
    note: str
    at: float
    is_written: bool
    """Whether it is known to be in the dataset's outcomes.jsonl."""


class LabelStore:
    """The labels that a ledger has, of all datasets."""

    def __init__(self, engine: Engine, reads: Engine) -> None:
        self._engine = engine
        self._reads = reads

    def add(
        self,
        dataset: str,
        episode: int,
        success: bool | None,
        *,
        is_undo: bool = False,
        source: str,
        who: str,
        note: str = "",
        key: str | None = None,
    ) -> tuple[LabelRow, bool]:
        """The row, and whether it is new: where there is one with this key, it is that one, as it
        was."""
        table = schema.episode_label
        with self._engine.begin() as connection:
            if key is not None:
                same = connection.execute(select(table).filter_by(key=key)).first()
                if same is not None:
                    return LabelRow(*same), False
            values = {
                "key": key,
                "dataset": dataset,
                "episode": episode,
                "success": success,
                "is_undo": is_undo,
                "source": source,
                "who": who,
                "note": note,
                "at": time.time(),
            }
            row = connection.execute(insert(table).values(values).returning(table)).one()
            return LabelRow(*row), True

    def find(self, key: str) -> LabelRow | None:
        """The label that a request with this key made."""
        found = self._rows(schema.episode_label.c.key == key)
        return found[0] if found else None

    def unwritten(self, dataset: str = "") -> list[LabelRow]:
        """Labels that may be missing in the outcomes.jsonl of their dataset, oldest first; of one
        dataset, or of all."""
        table = schema.episode_label
        # A literal, so that the small index of these serves.
        where: list[ColumnElement[bool]] = [table.c.is_written == false()]
        where += [table.c.dataset == dataset] if dataset else []
        return self._rows(*where)[::-1]

    def mark_written(self, row: LabelRow) -> None:
        """The dataset has it too."""
        table = schema.episode_label
        with self._engine.begin() as connection:
            connection.execute(update(table).where(table.c.id == row.id).values(is_written=True))

    def drop(self, row: LabelRow) -> None:
        """It could not be written to its dataset, and whoever said it is told so."""
        table = schema.episode_label
        with self._engine.begin() as connection:
            connection.execute(delete(table).where(table.c.id == row.id))

    def history(self, dataset: str, episode: int) -> list[LabelRow]:
        """Labels of one episode, newest first."""
        table = schema.episode_label
        return self._rows(table.c.dataset == dataset, table.c.episode == episode)

    def newest(self) -> int:
        """Id of the newest label of all datasets; 0 where there is none."""
        with self._reads.connect() as connection:
            return connection.execute(select(func.max(schema.episode_label.c.id))).scalar() or 0

    def _rows(self, *where: ColumnElement[bool]) -> list[LabelRow]:
        table = schema.episode_label
        query = select(table).where(*where).order_by(table.c.id.desc())
        with self._reads.connect() as connection:
            return [LabelRow(*row) for row in connection.execute(query)]
