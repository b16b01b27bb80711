"""Bringing the schema up to date. The only importer of Alembic; `trivet migrate` and `trivet up` load it.

A database without a schema is given today's, whole: SQLite by `sqlite.sql`, PostgreSQL from `tables.py`. Steps are for
those that have an earlier one. They go forward only and run in one transaction: all of them or none. Several processes
may call `migrate` at once: on PostgreSQL an advisory lock, on SQLite the write lock makes them queue, and one that
comes later finds nothing to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection as SqlalchemyConnection
from sqlalchemy import func, inspect, select

from gateway.limits import MIGRATION_WAIT_S
from gateway.store.engine import Connection, open_database
from gateway.store.store import VERSION, create_sqlite_schema, refuse_unknown
from gateway.store.tables import KNOWN_REVISIONS, VERSION_TABLE, metadata

_FOLDER: Final = Path(__file__).parent
_LOCK: Final = int.from_bytes(b"trivet") & 0x7FFF_FFFF
"""Our advisory lock; any number will do as long as it stays the same."""

_NO_TIMEOUT: Final = "SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'"
"""Let the transaction take as long as it takes; servers before PostgreSQL 17 have no such setting."""

_FULL_TEXT: Final = "CREATE INDEX {0}_index ON {0} USING gin (array_to_tsvector(string_to_array(terms, ' ')))"


async def migrate(url: str) -> list[str]:
    """Upgrade the database at `url` to this version's schema; the revisions applied, oldest first.

    Raises `ConfigError` for a bad URL, `StoreUnavailable` for a database that is locked or unreachable,
    `SchemaMismatch` for one that an older or a newer Trivet made."""
    database = open_database(url, busy_timeout_s=MIGRATION_WAIT_S)
    try:
        return await database.write(_upgrade)
    finally:
        await database.close()


def _upgrade(connection: Connection) -> list[str]:
    applied: list[str] = []

    def note(*, step: Any, **_context: Any) -> None:
        applied.extend(step.up_revision_ids)

    with connection.as_sqlalchemy() as lent:
        if lent.dialect.name == "postgresql":
            lent.exec_driver_sql(_NO_TIMEOUT)
            lent.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        if inspect(lent).has_table(VERSION_TABLE):
            refuse_unknown(lent.execute(VERSION).scalar_one_or_none())
            command.upgrade(alembic_config(lent, on_version_apply=note), "head")
            return applied
        if lent.dialect.name == "sqlite":
            create_sqlite_schema(connection)
        else:
            _create_postgres_schema(lent)
    return list(KNOWN_REVISIONS)


def _create_postgres_schema(connection: SqlalchemyConnection) -> None:
    for table in metadata.tables.values():
        for index in table.indexes:  # the condition of a partial one is told to SQLite's dialect only
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    metadata.create_all(connection, checkfirst=False)
    for name in ("facts", "passages"):
        connection.exec_driver_sql(_FULL_TEXT.format(name))
    command.stamp(alembic_config(connection), "head")


def alembic_config(connection: SqlalchemyConnection, **options: Any) -> Config:
    """Alembic on a connection of ours, without an `alembic.ini`. `options` reach `context.configure`."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["options"] = options
    return config
