"""The episodes that gates judged, and those of any stage that were filmed."""

from typing import NamedTuple

from sqlalchemy import Engine, select

from lefleet.ledger import schema
from lefleet.ledger.rows import AttemptRow, attempt_row

_GATE = "gate"


class GateEpisode(NamedTuple):
    """One policy's half of a pair."""

    policy: str
    """candidate or baseline."""
    task: str
    seed: int
    success: bool
    progress: float
    length: int


class FilmedRow(NamedTuple):
    """An episode that a stage filmed."""

    task: str
    seed: int
    success: bool
    video: str
    """Relative to the folder of the stage."""


class EpisodeStore:
    """What gates of all runs of a ledger judged; only committed ones are there."""

    def __init__(self, reads: Engine) -> None:
        self._reads = reads

    def gate(self, run: str, cycle: int) -> AttemptRow | None:
        """The attempt that brought a gate's record; None where the cycle has none, or not yet."""
        query = select(schema.attempt).filter_by(
            run=run, cycle=cycle, stage=_GATE, state="committed"
        )
        with self._reads.connect() as connection:
            row = connection.execute(query).first()
            return attempt_row(row) if row else None

    def of_gate(self, run: str, cycle: int) -> list[GateEpisode]:
        """All episodes of a gate, in the order in which they ended."""
        table = schema.episode
        columns = [table.c[name] for name in GateEpisode._fields]
        query = select(*columns).where(
            table.c.run == run, table.c.cycle == cycle, table.c.stage == _GATE
        )
        with self._reads.connect() as connection:
            return [GateEpisode(*row) for row in connection.execute(query.order_by(table.c.id))]

    def filmed(self, run: str, cycle: int, stage: str) -> list[FilmedRow]:
        """The filmed episodes of a stage, by task and seed."""
        table = schema.episode
        columns = [table.c[name] for name in FilmedRow._fields]
        query = select(*columns).where(
            table.c.run == run, table.c.cycle == cycle, table.c.stage == stage, table.c.video != ""
        )
        with self._reads.connect() as connection:
            # Not by the database: each has its own order of letters.
            return sorted(FilmedRow(*row) for row in connection.execute(query))
