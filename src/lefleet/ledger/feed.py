"""The newest events first, and how far each run has come: what a page that stays open asks for."""

from collections.abc import Sequence

from sqlalchemy import Engine, func, select

from lefleet.ledger import schema
from lefleet.ledger.rows import EventRow


class EventFeed:
    """Events of all runs of a ledger. Every question is answered from an index, whatever the number
    of events."""

    def __init__(self, reads: Engine) -> None:
        self._reads = reads

    def recent(
        self, run: str, *, before: int | None = None, kinds: Sequence[str] = (), limit: int = 50
    ) -> list[EventRow]:
        """Events of a run, newest first: those with an id below `before`, and of these `kinds`."""
        table = schema.event
        query = select(table).where(table.c.run == run).order_by(table.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(table.c.id < before)
        # One question for each kind: together, they would read every event of the run.
        queries = [query.where(table.c.kind == kind) for kind in kinds] or [query]
        with self._reads.connect() as connection:
            rows = [row for one in queries for row in connection.execute(one)]
        newest = sorted(rows, key=lambda row: row.id, reverse=True)[:limit]
        return [EventRow(row.id, row.at, row.kind, row.data) for row in newest]

    def newest(self) -> int:
        """Id of the newest event of all runs; 0 where there is none."""
        with self._reads.connect() as connection:
            return connection.execute(select(func.max(schema.event.c.id))).scalar() or 0

    def newest_by_run(self, runs: Sequence[str]) -> dict[str, EventRow]:
        """The newest event of each of these runs."""
        table, inner = schema.event, schema.event.alias()
        last = select(func.max(inner.c.id)).where(inner.c.run == schema.run.c.id)
        query = select(table).where(
            table.c.id.in_(
                select(last.scalar_subquery())
                .select_from(schema.run)
                .where(schema.run.c.id.in_(runs))
            )
        )
        with self._reads.connect() as connection:
            rows = connection.execute(query)
            return {row.run: EventRow(row.id, row.at, row.kind, row.data) for row in rows}
