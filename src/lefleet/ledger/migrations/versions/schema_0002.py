"""Budgets that a run was given after its begin, and the run that it started from."""

from alembic import op
from sqlalchemy import JSON, Column

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("run", Column("budgets", JSON))
    op.add_column("run", Column("origin", JSON))
