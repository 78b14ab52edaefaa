"""Hashes of the knowledge sections that LeFleet wrote: what differs now was edited by a person."""

import time

from sqlalchemy import Engine, insert, select, update

from lefleet.ledger import schema


class SectionStore:
    """By page and section."""

    def __init__(self, engine: Engine, reads: Engine) -> None:
        self._engine = engine
        self._reads = reads

    def digests(self, page: str) -> dict[str, str]:
        """Of the generated sections of a page as they were last written."""
        table = schema.knowledge_section
        with self._reads.connect() as connection:
            rows = connection.execute(select(table).filter_by(page=page))
            return {row.section: row.digest for row in rows}

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
