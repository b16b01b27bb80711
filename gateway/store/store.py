"""The store: one database, and an aggregate for each thing that is kept in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from sqlalchemy import Executable, bindparam, column, select, table, update

from gateway.clock import SystemClock
from gateway.contracts.errors import SchemaMismatch
from gateway.contracts.ports import Clock
from gateway.limits import INSTALLATION_CHARS, SQLITE_BUSY_TIMEOUT_S
from gateway.store.access import AccessStore
from gateway.store.accounts import LinkStore
from gateway.store.audit import AuditStore, SecretAudit
from gateway.store.engine import Aggregate, Connection, Database, InsertInto, open_database, per_dialect, read, write
from gateway.store.export import PeopleStore
from gateway.store.memory import MemoryStore
from gateway.store.outbox import ButtonStore, OutboxStore
from gateway.store.schedules import ScheduleStore
from gateway.store.sessions import SessionStore
from gateway.store.sqlite import NOT_MIGRATED
from gateway.store.subagents import SubTypeStore, TaskStore
from gateway.store.tables import KNOWN_REVISIONS, OLD_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, installation
from gateway.store.transcript import Histories, TranscriptStore
from gateway.store.turns import TurnStore
from gateway.store.usage import SpendingStore, UsageStore


def open_store(url: str, clock: Clock | None = None, *, busy_timeout_s: float = SQLITE_BUSY_TIMEOUT_S) -> Store:
    """Open the store at `url` (`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://…`).

    Connects on first use; for SQLite the folder and the file are made now. Raises `ConfigError`.
    `busy_timeout_s` is how long SQLite waits for another process's transaction."""
    return Store(open_database(url, busy_timeout_s=busy_timeout_s), clock or SystemClock())


class Store(Aggregate):
    """Truth in SQLite or PostgreSQL. Safe to use from any number of tasks of one event loop.

    Every method of it and of its aggregates may raise `StoreUnavailable` and `SchemaMismatch`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        histories = Histories()
        self.turns = TurnStore(database, clock, histories)
        self.transcript = TranscriptStore(database, clock, histories)
        self.sessions = SessionStore(database, clock)
        self.outbox = OutboxStore(database, clock)
        self.access = AccessStore(database, clock)
        self.spending = SpendingStore(database, clock)
        self.usage = UsageStore(database, clock)
        self.memories = MemoryStore(database, clock)
        self.people = PeopleStore(database, clock)
        self.schedules = ScheduleStore(database, clock)
        self.secret_uses = SecretAudit(database, clock)
        self.audit = AuditStore(database, clock)
        self.links = LinkStore(database, clock)
        self.buttons = ButtonStore(database, clock)
        self.tasks = TaskStore(database, clock)
        self.sub_types = SubTypeStore(database, clock)

    @read
    def check_schema(self, connection: Connection) -> None:
        """Raise `SchemaMismatch` unless the schema is exactly ours, `StoreUnavailable` if unreachable."""
        found = connection.execute(VERSION).scalar_one_or_none()
        refuse_unknown(found)
        if found != SCHEMA_REVISION:
            raise SchemaMismatch(NOT_MIGRATED)

    @write
    def create_schema(self, connection: Connection) -> bool:
        """Make an empty SQLite database one of this version, without Alembic. False, and nothing done, for all others:
        they are for the migrations."""
        if connection.dialect.name != "sqlite" or connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
            return False
        create_sqlite_schema(connection)
        return True

    async def installation(self) -> str:
        """Return whose the database is: the first to ask names it, for good."""
        return await self.known_installation() or await self._name_installation()

    @read
    def known_installation(self, connection: Connection) -> str | None:
        """Return whose the database is; None while nobody has asked."""
        named: str | None = connection.execute(_INSTALLATION).scalar_one_or_none()
        return named

    @write
    def _name_installation(self, connection: Connection) -> str:
        connection.execute(_name(connection), {"new_id": self.clock.code(INSTALLATION_CHARS)})
        return str(connection.execute(_INSTALLATION).scalar_one())

    @write
    def renew_installation(self, connection: Connection) -> str:
        """Give the database a new name, as a copy needs it that works beside the original; return that name."""
        new_id = {"new_id": self.clock.code(INSTALLATION_CHARS)}
        connection.execute(_name(connection), new_id)
        connection.execute(_RENAME, new_id)
        return new_id["new_id"]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.database.close()


# --- the schema

VERSION: Final = select(table(VERSION_TABLE, column("version_num")).c.version_num)
_INSTALLATION: Final = select(installation.c.id)
_RENAME: Final = update(installation).values(id=bindparam("new_id"))


@per_dialect
def _name(insert: InsertInto) -> Executable:
    return insert(installation).values(number=1, id=bindparam("new_id")).on_conflict_do_nothing()


def create_sqlite_schema(connection: Connection) -> None:
    """Run the statements of `sqlite.sql`, which end with an empty line each."""
    for statement in Path(__file__).with_name("sqlite.sql").read_text("utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)


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
