"""What knowledge pages need of the ledger: marks of the sections that LeFleet wrote, who edited
them, and the rows that pages stand on."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Engine, delete, func, insert, select, update

from lefleet.ledger import schema
from lefleet.ledger.rows import EventRow

EVIDENCE = ("stage_committed", "decision", "proposal", "approved", "rejected", "denied")
"""Kinds of events that pages tell of."""


class JudgedEpisode(NamedTuple):
    """One episode of a fixed block."""

    cycle: int
    task: str
    seed: int
    success: bool
    progress: float
    video: str
    """Relative to the folder of its stage; empty where it was not filmed."""


class PageEditRow(NamedTuple):
    """A person changed a page."""

    id: int
    page: str
    """Relative to the knowledge folder."""
    who: str
    at: float
    digest_before: str
    """sha256 of the page's text before and after."""
    digest_after: str


class SectionStore:
    """By page and section."""

    def __init__(self, engine: Engine, reads: Engine) -> None:
        self._engine = engine
        self._reads = reads

    def digests(self, page: str) -> dict[str, str]:
        """Marks of the generated sections of a page; knowledge.merge says what they mean."""
        table = schema.knowledge_section
        with self._reads.connect() as connection:
            rows = connection.execute(select(table).filter_by(page=page))
            return {row.section: row.digest for row in rows}

    def every(self) -> dict[str, dict[str, str]]:
        """The marks of all pages."""
        found: dict[str, dict[str, str]] = {}
        with self._reads.connect() as connection:
            for row in connection.execute(select(schema.knowledge_section)):
                found.setdefault(row.page, {})[row.section] = row.digest
        return found

    def write(self, page: str, digests: dict[str, str]) -> None:
        """Remember what is about to be written, before the file is."""
        table = schema.knowledge_section
        with self._engine.begin() as connection:
            for section, digest in digests.items():
                values = {"digest": digest, "at": time.time()}
                same = (table.c.page == page, table.c.section == section)
                changed = connection.execute(update(table).where(*same).values(values))
                if not changed.rowcount:
                    values |= {"page": page, "section": section}
                    connection.execute(insert(table).values(values))

    def add_edit(self, page: str, who: str, digest_before: str, digest_after: str) -> PageEditRow:
        """A person is about to change a page. The same change again, after a kill before it took
        effect, is the same row."""
        table = schema.page_edit
        same = {
            "page": page,
            "who": who,
            "digest_before": digest_before,
            "digest_after": digest_after,
        }
        last = select(table).filter_by(page=page).order_by(table.c.id.desc()).limit(1)
        with self._engine.begin() as connection:
            row = connection.execute(last).first()
            if row is None or any(getattr(row, name) != value for name, value in same.items()):
                values = {**same, "at": time.time()}
                row = connection.execute(insert(table).values(values).returning(table)).one()
            return PageEditRow(*row)

    def drop_edit(self, edit: PageEditRow) -> None:
        """The change did not take place."""
        table = schema.page_edit
        with self._engine.begin() as connection:
            connection.execute(delete(table).where(table.c.id == edit.id))

    def edits(self, page: str, limit: int = 20) -> list[PageEditRow]:
        """Of a page, newest first."""
        table = schema.page_edit
        query = select(table).filter_by(page=page).order_by(table.c.id.desc()).limit(limit)
        with self._reads.connect() as connection:
            return [PageEditRow(*row) for row in connection.execute(query)]

    def newest_edit(self) -> int:
        """Id of the newest edit of all pages; 0 where there is none."""
        with self._reads.connect() as connection:
            return connection.execute(select(func.max(schema.page_edit.c.id))).scalar() or 0

    def evidence(self, run: str) -> list[EventRow]:
        """The events of a run that pages tell of, in order."""
        table = schema.event
        query = select(table).where(table.c.run == run, table.c.kind.in_(EVIDENCE))
        with self._reads.connect() as connection:
            rows = connection.execute(query.order_by(table.c.id))
            return [EventRow(row.id, row.at, row.kind, row.data) for row in rows]

    def judged(self, run: str) -> list[JudgedEpisode]:
        """Every episode of the fixed blocks of a run."""
        table = schema.episode
        columns = [table.c[name] for name in JudgedEpisode._fields]
        query = select(*columns).where(table.c.run == run, table.c.stage == "evaluate")
        with self._reads.connect() as connection:
            rows = connection.execute(query.order_by(table.c.id))
            return [JudgedEpisode(*row) for row in rows]

    def runs_of_events(self, ids: Iterable[int]) -> dict[int, str]:
        """The run of each of these events, without those that are not in the ledger."""
        table, wanted = schema.event, sorted(set(ids))
        found: dict[int, str] = {}
        with self._reads.connect() as connection:
            for at in range(0, len(wanted), 500):
                some = wanted[at : at + 500]
                query = select(table.c.id, table.c.run).where(table.c.id.in_(some))
                found |= {row.id: row.run for row in connection.execute(query)}
        return found
