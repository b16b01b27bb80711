"""Whether the database has the schema this code is written for, and whose it is. Alembic is not needed to ask."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Executable, bindparam, column, inspect, select, table, update

from gateway.contracts.errors import SchemaMismatch
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.failures import NOT_MIGRATED
from gateway.store.tables import KNOWN_REVISIONS, OLD_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, installation

_VERSION: Final = select(table(VERSION_TABLE, column("version_num")).c.version_num)
_INSTALLATION: Final = select(installation.c.id)
_RENAME: Final = update(installation).values(id=bindparam("new_id"))


@per_dialect
def _name(insert: InsertInto) -> Executable:
    return insert(installation).values(number=1, id=bindparam("new_id")).on_conflict_do_nothing()


def check(connection: Connection) -> None:
    """Raises `SchemaMismatch` unless the schema is exactly ours."""
    found = revision(connection)
    refuse_unknown(found)
    if found != SCHEMA_REVISION:
        raise SchemaMismatch(NOT_MIGRATED)


def revision(connection: Connection) -> str | None:
    """The revision the database is at; None if it was never migrated."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_VERSION).scalar_one_or_none()


def refuse_unknown(found: str | None) -> None:
    """Raise `SchemaMismatch` for a revision that this Trivet does not know; the database stays as it is."""
    if found in OLD_REVISIONS:
        raise SchemaMismatch(
            f"the database was made by an older Trivet (schema {found}) and is left as it is: move it away, or set "
            "database.url to a new one, and run `trivet migrate`"
        )
    if found is not None and found not in KNOWN_REVISIONS:
        raise SchemaMismatch(
            f"the database was made by a newer Trivet (schema {found}, this one knows {SCHEMA_REVISION}): "
            "install that version, or restore a backup"
        )


def known_installation(connection: Connection) -> str | None:
    """Whose the database is; None before the first start."""
    return connection.execute(_INSTALLATION).scalar_one_or_none()


def name_installation(connection: Connection, new_id: str) -> str:
    """The same, and from now on it is `new_id` unless it was named before, by however many at once."""
    connection.execute(_name(connection), {"new_id": new_id})
    return str(connection.execute(_INSTALLATION).scalar_one())


def rename_installation(connection: Connection, new_id: str) -> None:
    """Make the database that of another installation."""
    name_installation(connection, new_id)
    connection.execute(_RENAME, {"new_id": new_id})
