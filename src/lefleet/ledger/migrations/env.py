"""Alembic's entry: runs migrations on the connection that `connect` opened a transaction on."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
