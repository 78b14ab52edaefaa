"""The first schema, as it was: later changes are migrations of their own."""

from alembic import op
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

revision = "0001"
down_revision = None

_tables = MetaData()


def _run() -> Column[str]:
    return Column("run", String, ForeignKey("run.id"), nullable=False, index=True)


Table(
    "run",
    _tables,
    Column("id", String, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("state", String, nullable=False),
    Column("reason", String, nullable=False, server_default=""),
    Column("config", JSON, nullable=False),
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    Column("created_at", Float, nullable=False),
    Column("resumed_at", Float, nullable=False),
    Column("resumed_after", Integer, nullable=False, server_default=text("0")),
)

Table(
    "stage_attempt",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("stage", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("request", JSON, nullable=False),
    Column("record", JSON),
    Column("error", String, nullable=False, server_default=""),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("recorded", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("run", "cycle", "stage", "attempt"),
    Index(
        "one_commit_per_stage",
        "run",
        "cycle",
        "stage",
        unique=True,
        sqlite_where=text("state = 'committed'"),
        postgresql_where=text("state = 'committed'"),
    ),
)

Table(
    "dataset",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("stage", String, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("root", String, nullable=False),
    Column("episodes", JSON, nullable=False),
    Column("parents", JSON, nullable=False),
)

Table(
    "checkpoint",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("path", String, nullable=False),
    Column("dataset_digest", String, nullable=False, index=True),
    Column("init_digest", String, nullable=False),
)

Table(
    "evaluation_episode",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("stage", String, nullable=False),
    Column("policy", String, nullable=False),
    Column("checkpoint_digest", String, nullable=False, index=True),
    Column("task", String, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("progress", Float, nullable=False),
    Column("length", Integer, nullable=False),
    Column("video", String, nullable=False),
    UniqueConstraint("run", "cycle", "stage", "policy", "task", "seed"),
)

Table(
    "gate_look",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("look", Integer, nullable=False),
    Column("pairs", Integer, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("p_worse", Float, nullable=False),
    Column("log_e", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("power", Float, nullable=False),
    UniqueConstraint("run", "cycle", "look"),
)

Table(
    "decision",
    _tables,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("decision", String, nullable=False),
    Column("body", JSON, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("run", "cycle"),
)

Table(
    "event",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("run", String, ForeignKey("run.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("data", JSON, nullable=False),
    Index("event_of_run", "run", "id"),
)


def upgrade() -> None:
    _tables.create_all(op.get_bind())
