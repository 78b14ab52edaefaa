"""How long attempts waited for room on a cluster."""

from alembic import op
from sqlalchemy import Column, Float, text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    column = Column("waited_s", Float, nullable=False, server_default=text("0"))
    op.add_column("stage_attempt", column)
