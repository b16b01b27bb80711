"""One database behind two verbs: `write` a transaction, `read` a statement.

What is read and written are plain functions of SQLAlchemy's synchronous `Connection` (turns.py, sessions.py,
…), the same for both databases. Only how they are run differs: on PostgreSQL inside SQLAlchemy's greenlet,
on SQLite on the connection's thread (sqlite.py). SQLite has one writing connection, so that the tasks of a
process queue fairly instead of polling for the file lock, and a few readers, which WAL never blocks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.contracts.errors import ConfigError
from gateway.limits import (
    POSTGRES_CONNECTIONS_MAX,
    SQLITE_READERS_MAX,
    STORE_CONNECT_TIMEOUT_S,
    STORE_POOL_WAIT_S,
    STORE_STANDSTILL_S,
    STORE_STATEMENT_TIMEOUT_S,
)
from gateway.store.failures import in_our_words
from gateway.store.sqlite import VERSION_MIN, run_in_thread, sqlite_engine

T = TypeVar("T")
Work = Callable[[Connection], T]

_FORMS: Final = "`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://user:password@host/name`"


class Runner(Protocol):
    """How a function of a synchronous connection is run on an asynchronous one."""

    def __call__(self, connection: AsyncConnection, work: Work[T], /, *, durable: bool | None) -> Awaitable[T]:
        """`durable` as in `Database.write`; None for work that leaves nothing to be kept."""
        ...


@dataclass(frozen=True, slots=True)
class Database:
    """An open database. Errors of `write` and `read` are those of `gateway.contracts.errors`."""

    url: URL
    writer: AsyncEngine
    reader: AsyncEngine
    run: Runner

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run `work` in one transaction: all of it or nothing. One that is not `durable` survives the death
        of every process, but need not survive a power cut."""
        with in_our_words(self.url):
            async with self.writer.connect() as connection:
                return await self.run(connection, _in_transaction(work), durable=durable)

    async def read(self, work: Work[T]) -> T:
        """Run `work` with no transaction around it: each statement sees one state of its own."""
        with in_our_words(self.url):
            async with self.reader.connect() as connection:
                return await self.run(connection, _in_transaction(work), durable=None)

    async def forget_pages(self) -> None:
        """Leave no old state of a page behind. SQLite's log has one of every page that was changed; PostgreSQL
        clears up by itself, in its own time."""
        if self.url.get_backend_name() == "sqlite":
            with in_our_words(self.url):
                async with self.reader.connect() as connection:
                    await self.run(connection, _truncate_log, durable=None)

    async def close(self) -> None:
        """Close all connections."""
        await self.reader.dispose()
        await self.writer.dispose()


def open_database(url: str, *, busy_timeout_s: float) -> Database:
    """Nothing is connected yet. Raises `ConfigError` for a URL that names no database we can use."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, busy_timeout_s)
    return _open_postgres(parsed)


def sqlite_file(url: str) -> Path | None:
    """The file of a database URL; None for a database on a server. Raises `ConfigError` as `open_database` does."""
    parsed = _parse(url)
    return Path(str(parsed.database)).expanduser() if parsed.get_backend_name() == "sqlite" else None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(f"database.url is not a database URL: write {_FORMS}") from None
    if parsed.drivername not in {"sqlite+aiosqlite", "postgresql+asyncpg"}:
        raise ConfigError(f"database.url uses {parsed.drivername[:40]!r}, which Trivet does not: write {_FORMS}")
    if not parsed.database:
        raise ConfigError(f"database.url names no database: write {_FORMS}")
    return parsed


def _open_sqlite(url: URL, busy_timeout_s: float) -> Database:
    if sqlite3.sqlite_version_info < VERSION_MIN:
        needed = ".".join(map(str, VERSION_MIN))
        raise ConfigError(f"this Python has SQLite {sqlite3.sqlite_version}, Trivet needs {needed}: update it")
    path = Path(str(url.database)).expanduser()
    if ":memory:" in path.name or url.query:
        raise ConfigError("database.url must name a plain SQLite file: nothing else keeps what people say")
    _make_private(path)
    url = url.set(database=str(path))
    return Database(
        url=url,
        writer=sqlite_engine(url, busy_timeout_s=busy_timeout_s, connections_max=1, writes=True),
        reader=sqlite_engine(url, busy_timeout_s=busy_timeout_s, connections_max=SQLITE_READERS_MAX, writes=False),
        run=run_in_thread,
    )


def _make_private(path: Path) -> None:
    """Create the file and its folder, readable by their owner only; SQLite's side files inherit the mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise ConfigError(
            f"the database {path} cannot be created ({error.strerror}): set data_dir or database.url to a place "
            "that Trivet may write"
        ) from error


def _open_postgres(url: URL) -> Database:
    if "sslmode" in url.query:
        raise ConfigError("database.url has `sslmode`, which asyncpg spells `ssl`: write `?ssl=require`")
    engine = create_async_engine(
        url,
        pool_size=POSTGRES_CONNECTIONS_MAX,
        max_overflow=0,
        pool_timeout=STORE_POOL_WAIT_S,
        hide_parameters=True,
        connect_args={
            "timeout": STORE_CONNECT_TIMEOUT_S,
            "command_timeout": STORE_STATEMENT_TIMEOUT_S,
            "server_settings": {"idle_in_transaction_session_timeout": str(round(STORE_STANDSTILL_S * 1000))},
        },
    )
    return Database(
        url=url,
        writer=engine,
        reader=engine.execution_options(isolation_level="AUTOCOMMIT"),
        run=_run_in_greenlet,
    )


async def _run_in_greenlet(connection: AsyncConnection, work: Work[T], *, durable: bool | None) -> T:
    """PostgreSQL is as durable as its server is told to be; it gathers the commits of many into one sync."""
    return await connection.run_sync(work)


def _truncate_log(connection: Connection) -> None:
    """With a reader in the way it waits as long as for any lock; then the next checkpoint does it."""
    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.rollback()


def _in_transaction(work: Work[T]) -> Work[T]:
    """A reader's transaction is none (sqlite.py, AUTOCOMMIT): the frame only ends it on the right thread."""

    def transaction(connection: Connection) -> T:
        with connection.begin():
            return work(connection)

    return transaction
