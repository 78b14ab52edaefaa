"""The ledger: what every run has done, in one SQLite file per work folder.

    schema       the tables
    migrations   how older ledgers become this one (alembic)
    connect      open a ledger: create, migrate, or refuse one from a newer lefleet
    store        the only module with SQL in it: typed questions and answers
    journal      events.jsonl of a run, repaired from the event table

Imports `records` and `errors`; `loop` writes through `Ledger`, `cli` reads through it. Rows are
typed columns and JSON, never pickle. Every method is one short transaction, so a reader sees a
stage either committed with all that belongs to it, or not at all.
"""

from lefleet.ledger.connect import open_ledger
from lefleet.ledger.store import AttemptRow, EventRow, Ledger, RunRow

__all__ = ["AttemptRow", "EventRow", "Ledger", "RunRow", "open_ledger"]
