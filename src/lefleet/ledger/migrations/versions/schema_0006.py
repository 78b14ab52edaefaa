"""Leases of controllers, and the work folder that a ledger on a server belongs to."""

from alembic import op
from sqlalchemy import Column, Float, ForeignKey, Integer, String

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "controller_lease",
        Column("run", String, ForeignKey("run.id"), primary_key=True),
        Column("token", Integer, nullable=False),
        Column("process", String, nullable=False),
        Column("host", String, nullable=False),
        Column("expires_at", Float, nullable=False),
    )
    op.create_table(
        "work_folder",
        Column("id", String, primary_key=True),
        Column("path", String, nullable=False),
        Column("host", String, nullable=False),
    )
