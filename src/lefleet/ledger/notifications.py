"""Messages to people that are still to be sent, and what became of them."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Engine, insert, select, update

from lefleet.ledger import schema
from lefleet.ledger.rows import EventRow
from lefleet.records import NotifyKind


class NotificationRow(NamedTuple):
    """One message."""

    id: int
    run: str
    event: int
    """Id of the event that it tells of."""
    kind: NotifyKind
    text: str
    state: str
    """pending, sent or failed."""
    tries: int
    error: str


class NotificationStore:
    """The messages of all runs of a ledger."""

    def __init__(self, engine: Engine, reads: Engine) -> None:
        self._engine = engine
        self._reads = reads

    def add(self, run: str, event: int, kind: NotifyKind, text: str) -> bool:
        """A message about an event, once; False where there is one already."""
        table = schema.notification
        with self._engine.begin() as connection:
            if connection.execute(select(table.c.id).filter_by(event=event)).first():
                return False
            values = {"run": run, "event": event, "kind": kind, "text": text, "state": "pending"}
            connection.execute(insert(table).values(values))
            return True

    def events_without(self, run: str, kinds: Collection[str]) -> list[EventRow]:
        """Events of these kinds that no message tells of, oldest first."""
        event, table = schema.event, schema.notification
        is_told = select(table.c.id).where(table.c.event == event.c.id).exists()
        query = select(event).where(event.c.run == run, event.c.kind.in_(kinds), ~is_told)
        with self._reads.connect() as connection:
            rows = connection.execute(query.order_by(event.c.id))
            return [EventRow(row.id, row.at, row.kind, row.data) for row in rows]

    def all(self, run: str) -> list[NotificationRow]:
        """Of one run, oldest first."""
        table = schema.notification
        with self._reads.connect() as connection:
            rows = connection.execute(select(table).filter_by(run=run).order_by(table.c.id))
            fields = NotificationRow._fields
            return [NotificationRow(*(getattr(row, name) for name in fields)) for row in rows]

    def update(self, notification: int, state: str, tries: int, error: str = "") -> None:
        table = schema.notification
        with self._engine.begin() as connection:
            connection.execute(
                update(table)
                .where(table.c.id == notification)
                .values(state=state, tries=tries, error=error)
            )
