"""The ledger: what every run has done, in one SQLite file per work folder.

    schema       the tables
    connect      open a ledger: create, migrate, or refuse one from a newer lefleet
    rows         what it answers with
    store        typed questions and answers about runs, stages, decisions and events
    lineage      which data made which checkpoint, and what judged it
    journal      events.jsonl of a run, repaired from the event table

The folder `migrations` says how older ledgers become this one, by alembic.

Imports `records` and `errors`; `loop` writes through `Ledger`, `cli` reads through it. Rows are
typed columns and JSON, never pickle. Every method is one short transaction, so a reader sees a
stage either committed with all that belongs to it, or not at all.
"""

from lefleet.ledger.connect import open_ledger
from lefleet.ledger.rows import AttemptRow, EventRow, RunRow
from lefleet.ledger.store import Ledger

__all__ = ["AttemptRow", "EventRow", "Ledger", "RunRow", "open_ledger"]
