"""The ledger: what every run has done, one for each work folder: a SQLite file, or on Postgres.

    schema          the tables
    rows            their rows as typed values
    connect         open a ledger to write or to read: create, migrate, or refuse it
    address         where a work folder's ledger is: ledger.db, or the server that ledger.json names
    engines         what both databases have in common
    sqlite          a ledger in a file
    postgres        a ledger on a server: turns of writers, reconnecting, errors in words
    control         which runs have a controller: file locks, or the leases of the next line
    lease           leases on a server, with a token that every write of a controller is checked for
    file_system     whether a folder is on a network file system
    copying         all rows of a ledger into an empty one
    store           typed questions and answers about runs, stages, decisions and events
    config_change   another config for a run that is resumed
    feed            the newest events first, for pages that stay open
    episodes        the episodes that gates judged
    approvals       questions to people, and their answers
    labels          what people said of recorded episodes
    notifications   messages to people that are still to be sent
    sections        hashes of generated knowledge, and who edited pages
    lineage         which data made which checkpoint, and what judged it
    journal         events.jsonl of a run, repaired from the event table
    migrations      how an older ledger becomes a newer one, by alembic

Imports `process`, `records` and `errors`; `loop` writes through `Ledger`, `cli` reads through it.
Rows are typed columns and JSON, never pickle. Every method is one short transaction, so a reader
sees a stage either committed with all that belongs to it, or not at all.
"""

from lefleet.ledger.approvals import ApprovalRow
from lefleet.ledger.connect import open_ledger, read_ledger
from lefleet.ledger.rows import AttemptRow, EventRow, RunRow
from lefleet.ledger.store import Ledger

__all__ = [
    "ApprovalRow",
    "AttemptRow",
    "EventRow",
    "Ledger",
    "RunRow",
    "open_ledger",
    "read_ledger",
]
