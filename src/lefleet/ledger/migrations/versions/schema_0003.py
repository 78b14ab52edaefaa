"""Constitutions, proposals, approvals, hashes of generated knowledge, and notifications."""

from alembic import op
from sqlalchemy import JSON, Column, Float, ForeignKey, Integer, String, UniqueConstraint, text

revision = "0003"
down_revision = "0002"


def _run() -> Column[str]:
    return Column("run", String, ForeignKey("run.id"), nullable=False, index=True)


def upgrade() -> None:
    op.add_column("run", Column("constitution", JSON))
    op.create_table(
        "proposal",
        Column("id", Integer, primary_key=True),
        _run(),
        Column("cycle", Integer, nullable=False),
        Column("body", JSON, nullable=False),
        Column("at", Float, nullable=False),
        UniqueConstraint("run", "cycle"),
    )
    op.create_table(
        "approval",
        Column("id", Integer, primary_key=True),
        _run(),
        Column("cycle", Integer, nullable=False),
        Column("kind", String, nullable=False),
        Column("subject", String, nullable=False),
        Column("text", String, nullable=False),
        Column("evidence", JSON, nullable=False),
        Column("asked_at", Float, nullable=False),
        Column("expires_at", Float),
        Column("on_timeout", String, nullable=False),
        Column("answer", JSON),
        UniqueConstraint("run", "kind", "subject"),
    )
    op.create_table(
        "knowledge_section",
        Column("page", String, primary_key=True),
        Column("section", String, primary_key=True),
        Column("digest", String, nullable=False),
        Column("at", Float, nullable=False),
    )
    op.create_table(
        "notification",
        Column("id", Integer, primary_key=True),
        _run(),
        Column("event", Integer, ForeignKey("event.id"), nullable=False, unique=True),
        Column("kind", String, nullable=False),
        Column("text", String, nullable=False),
        Column("state", String, nullable=False),
        Column("tries", Integer, nullable=False, server_default=text("0")),
        Column("error", String, nullable=False, server_default=""),
    )
