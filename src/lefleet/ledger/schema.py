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
    false,
    text,
)

REVISION = "0007"
"""Of the newest migration; readers compare it with the ledger's."""

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
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    Column("created_at", Float, nullable=False),
    Column("resumed_at", Float, nullable=False),
    Column("resumed_after", Integer, nullable=False, server_default=text("0")),
    Column("budgets", JSON(none_as_null=True)),
    Column("origin", JSON(none_as_null=True)),
    Column("constitution", JSON(none_as_null=True)),
    Column("corrections", JSON(none_as_null=True)),
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
    Column("record", JSON(none_as_null=True)),
    Column("error", String, nullable=False, server_default=""),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("recorded", Integer, nullable=False, server_default=text("0")),
    Column("waited_s", Float, nullable=False, server_default=text("0")),
    UniqueConstraint("run", "cycle", "stage", "attempt"),
    # A stage is committed once.
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
    Column("p_worse", Float, nullable=False),
    Column("log_e", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("power", Float, nullable=False),
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

proposal = Table(
    "proposal",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("cycle", Integer, nullable=False),
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
    Column("subject", String, nullable=False),
    Column("text", String, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("on_timeout", String, nullable=False),
    Column("answer", JSON(none_as_null=True)),
    # The same question is asked once.
    UniqueConstraint("run", "kind", "subject"),
)

knowledge_section = Table(
    "knowledge_section",
    metadata,
    Column("page", String, primary_key=True),
    Column("section", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("at", Float, nullable=False),
)

notification = Table(
    "notification",
    metadata,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("event", Integer, ForeignKey("event.id"), nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("text", String, nullable=False),
    Column("state", String, nullable=False),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("error", String, nullable=False, server_default=""),
)

episode_label = Table(
    "episode_label",
    metadata,
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

page_edit = Table(
    "page_edit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("page", String, nullable=False, index=True),
    Column("who", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("digest_before", String, nullable=False),
    Column("digest_after", String, nullable=False),
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
    Index("event_of_kind", "run", "kind", "id"),
)
