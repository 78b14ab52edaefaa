"""Gates that stop early: a look keeps all of its evidence, and gates are sized by pairs in all.

Runs remember the last attempt before they were taken up, instead of comparing clocks.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ADDED = {"p_worse": "1", "log_e": "0", "low": "-1", "high": "1", "power": "0"}
_RUN = sa.table("run", sa.column("id", sa.String), sa.column("config", sa.JSON))
_DECISION = sa.table("decision", sa.column("id", sa.Integer), sa.column("body", sa.JSON))


_LAST_ATTEMPT = """
UPDATE run SET resumed_after = (
    SELECT coalesce(max(stage_attempt.id), 0) FROM stage_attempt
    WHERE stage_attempt.run = run.id AND stage_attempt.started_at < run.resumed_at
)
"""


def upgrade() -> None:
    resumed_after = sa.Column(
        "resumed_after", sa.Integer(), server_default=sa.text("0"), nullable=False
    )
    op.add_column("run", resumed_after)
    op.execute(_LAST_ATTEMPT)
    for name, before in _ADDED.items():
        column = sa.Column(name, sa.Float(), server_default=before, nullable=False)
        op.add_column("gate_look", column)
    connection = op.get_bind()
    for row in connection.execute(sa.select(_RUN)).all():
        gate = dict(row.config.get("gate") or {})
        if "pairs_per_task" in gate:
            gate["max_pairs"] = gate.pop("pairs_per_task") * len(row.config.get("tasks") or [1])
            change = sa.update(_RUN).where(_RUN.c.id == row.id)
            connection.execute(change.values(config={**row.config, "gate": gate}))
    for row in connection.execute(sa.select(_DECISION)).all():
        if row.body.get("gate") and "ended" not in row.body["gate"]:
            change = sa.update(_DECISION).where(_DECISION.c.id == row.id)
            gate = _completed(row.body["gate"])
            body = {**row.body, "gate": gate, "gate_number": row.body["cycle"]}
            connection.execute(change.values(body=body))


def _completed(gate: dict[str, Any]) -> dict[str, Any]:
    """The evidence of a gate of fixed size in today's words; what it did not know says nothing."""
    decided = gate["verdict"] != "inconclusive"
    return {
        **gate,
        "ended": gate["verdict"] if decided else "exhausted",
        "e_value": 1.0,
        "e_worse": 1.0,
        "p_worse": gate["p_value"] if gate["verdict"] == "worse" else 1.0,
        "difference": (gate["wins"] - gate["losses"]) / max(gate["pairs"], 1),
        "interval": [-1.0, 1.0],
        "max_pairs": gate["pairs"],
        "min_effect": 0.0,
        "fixed_pairs": gate["pairs"],
    }
