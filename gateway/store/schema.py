"""Whether the database has the schema this code is written for. Alembic is not needed to ask."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, column, inspect, select, table

from gateway.contracts.errors import SchemaMismatch
from gateway.store.failures import NOT_MIGRATED
from gateway.store.tables import KNOWN_REVISIONS, SCHEMA_REVISION, VERSION_TABLE

_VERSION: Final = select(table(VERSION_TABLE, column("version_num")).c.version_num)


def check(connection: Connection) -> None:
    """Raises `SchemaMismatch` unless the schema is exactly ours."""
    found = revision(connection)
    refuse_newer(found)
    if found != SCHEMA_REVISION:
        raise SchemaMismatch(NOT_MIGRATED)


def revision(connection: Connection) -> str | None:
    """The revision the database is at; None if it was never migrated."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_VERSION).scalar_one_or_none()


def refuse_newer(found: str | None) -> None:
    """Raises `SchemaMismatch` for a revision this Trivet does not know."""
    if found is not None and found not in KNOWN_REVISIONS:
        raise SchemaMismatch(
            f"the database was made by a newer Trivet (schema {found}, this one knows {SCHEMA_REVISION}): "
            "install that version, or restore a backup"
        )
