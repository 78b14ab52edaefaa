"""A run's config that is changed when the run is resumed, with events that show the difference."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, select, update

from lefleet.ledger import schema
from lefleet.ledger.rows import insert_event, run_row


class ConfigChange(NamedTuple):
    """A config that is changed when its run is resumed."""

    budgets: dict[str, Any]
    corrections: dict[str, Any]
    """All other fields that differ from those of the begin."""
    fields: dict[str, tuple[Any, Any]]
    """What changes now but budgets, before and after, by field."""
    constitution: dict[str, Any] | None
    """The rules that hold from now on."""


def change_config(
    connection: Connection, run: str, change: ConfigChange, person: dict[str, str]
) -> None:
    """Within the transaction that resumes the run; `person` is who does it, for the event."""
    row = run_row(connection.execute(select(schema.run).filter_by(id=run)).one())
    before = row.budgets or row.config.get("budgets", {})
    changes = {name: [before.get(name), now] for name, now in change.budgets.items()}
    changes = {name: both for name, both in changes.items() if both[0] != both[1]}
    values: dict[str, Any] = {"corrections": change.corrections or None}
    if changes:
        values["budgets"] = change.budgets
        insert_event(connection, run, "budgets_changed", {"budgets": changes})
    if change.fields:
        values["constitution"] = change.constitution
        fields = {name: list(both) for name, both in change.fields.items()}
        insert_event(connection, run, "config_changed", {"fields": fields} | person)
    connection.execute(update(schema.run).where(schema.run.c.id == run).values(**values))
