"""The migrations as Alembic runs them, on the connection that `migrate` hands over."""

from __future__ import annotations

from alembic import context

from gateway.store.tables import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    **context.config.attributes["options"],
)
with context.begin_transaction():
    context.run_migrations()
