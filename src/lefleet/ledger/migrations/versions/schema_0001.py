"""The first schema: the tables as they are now.

A second migration needs them frozen here first; without that, a new ledger cannot be created.
"""

from alembic import op

from lefleet.ledger.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
