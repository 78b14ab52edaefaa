"""The tables."""

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
    text,
)

metadata = MetaData()


def _run() -> Column[str]:
    return Column("run", String, ForeignKey("run.id"), nullable=False, index=True)


run = Table(
    "run",
    metadata,
    Column("id", String, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("state", String, nullable=False),
    Column("reason", String, nullable=False, server_default=""),
    Column("config", JSON, nullable=False),
    Column("stop_requested", Boolean, nullable=False, server_default=text("0")),
    Column("created_at", Float, nullable=False),
    Column("resumed_at", Float, nullable=False),
    Column("resumed_after", Integer, nullable=False, server_default=text("0")),
)

attempt = Table(
    "stage_attempt",
    metadata,
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
    UniqueConstraint("run", "cycle", "stage", "attempt"),
    # A stage is committed once, whoever tries to do it again.
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

dataset = Table(
    "dataset",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("stage", String, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("root", String, nullable=False),
    Column("episodes", JSON, nullable=False),
    Column("parents", JSON, nullable=False),
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("path", String, nullable=False),
    Column("dataset_digest", String, nullable=False, index=True),
    Column("init_digest", String, nullable=False),
)

episode = Table(
    "evaluation_episode",
    metadata,
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

gate_look = Table(
    "gate_look",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("look", Integer, nullable=False),
    Column("pairs", Integer, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("p_worse", Float, nullable=False, server_default="1"),
    Column("log_e", Float, nullable=False, server_default="0"),
    Column("low", Float, nullable=False, server_default="-1"),
    Column("high", Float, nullable=False, server_default="1"),
    Column("power", Float, nullable=False, server_default="0"),
    UniqueConstraint("run", "cycle", "look"),
)

decision = Table(
    "decision",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("decision", String, nullable=False),
    Column("body", JSON, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("run", "cycle"),
)

approval = Table(
    "approval",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("why", String, nullable=False, server_default=""),
    Column("at", Float, nullable=False),
)

event = Table(
    "event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", String, ForeignKey("run.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("data", JSON, nullable=False),
    Index("event_of_run", "run", "id"),
)
