"""Fields of a run's config that were corrected after its begin."""

from alembic import op
from sqlalchemy import JSON, Column

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("run", Column("corrections", JSON))
