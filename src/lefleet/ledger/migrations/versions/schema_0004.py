"""Labels of recorded episodes, who edited knowledge pages, and events found by their kind."""

from alembic import op
from sqlalchemy import Boolean, Column, Float, Index, Integer, String, false, text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "episode_label",
        Column("id", Integer, primary_key=True),
        Column("key", String, unique=True),
        Column("dataset", String, nullable=False),
        Column("episode", Integer, nullable=False),
        Column("success", Boolean),
        Column("is_undo", Boolean, nullable=False, server_default=false()),
        Column("source", String, nullable=False),
        Column("who", String, nullable=False),
        Column("note", String, nullable=False, server_default=""),
        Column("at", Float, nullable=False),
        Column("is_written", Boolean, nullable=False, server_default=false()),
        Index("label_of_episode", "dataset", "episode"),
        Index(
            "unwritten_label",
            "id",
            sqlite_where=text("is_written = 0"),
            postgresql_where=text("NOT is_written"),
        ),
    )
    op.create_table(
        "page_edit",
        Column("id", Integer, primary_key=True),
        Column("page", String, nullable=False, index=True),
        Column("who", String, nullable=False),
        Column("at", Float, nullable=False),
        Column("digest_before", String, nullable=False),
        Column("digest_after", String, nullable=False),
    )
    op.create_index("event_of_kind", "event", ["run", "kind", "id"])
