"""The migrations as Alembic runs them, on the connection that `migrate` hands over."""

from __future__ import annotations

from typing import Any

from alembic import context

from gateway.store.search import INDEXES
from gateway.store.tables import VERSION_TABLE, metadata


def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """False for the full-text index, which SQLAlchemy cannot describe."""
    return not (kind in {"table", "index"} and (name or "").startswith(INDEXES))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=is_ours,
    **context.config.attributes["options"],
)
with context.begin_transaction():
    context.run_migrations()
