"""One database with two verbs: `write` a transaction, `read` a statement; and the class whose methods are one each.

What is read and written are plain functions of SQLAlchemy's synchronous `Connection`, the same for both databases.
Only how they are run differs: on PostgreSQL inside SQLAlchemy's greenlet, on SQLite on the connection's thread. SQLite
has one writing connection, so that the tasks of a process queue fairly instead of polling for the file lock, and a
few readers, which WAL never blocks.

aiosqlite gives every connection a thread and hands it each call singly: create a cursor, execute, fetch, close, four
hops for one statement. A turn has some fifteen statements, so the hops would cost more than the work. Here a whole
transaction runs on the thread: SQLAlchemy's synchronous `Connection` is handed over, and `InThreadConnection` talks to
SQLite directly while it is there.

Durability. With WAL, `synchronous=NORMAL` survives the death of any process; `FULL` survives a power cut, too, at one
fdatasync per commit. The bus forgets a message once its turn is committed, and syncs its own log at every write, so a
turn is committed with FULL. What the bus would bring again (a turn that has begun, a reply marked as published) is not:
`write_unsynced`.

Errors leave in our words: one sentence with the remedy, never a password or a text.

    locked, unreachable, starting, overloaded   StoreUnavailable   retried by the caller
    tables or columns that are not there        SchemaMismatch     `trivet migrate`
    wrong password, database, file, rights      ConfigError        the operator
    anything else                               StoreError         a defect of ours
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

import aiosqlite
from sqlalchemy import Connection, Executable, Table, event, exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util.concurrency import await_

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TrivetError
from gateway.contracts.ports import Clock
from gateway.limits import (
    POSTGRES_CONNECTIONS_MAX,
    SQLITE_READERS_MAX,
    STORE_CONNECT_TIMEOUT_S,
    STORE_POOL_WAIT_S,
    STORE_STANDSTILL_S,
    STORE_STATEMENT_TIMEOUT_S,
)

T = TypeVar("T")
A = TypeVar("A", bound="Aggregate")
P = ParamSpec("P")

Insert: TypeAlias = sqlite.Insert | postgresql.Insert


class InsertInto(Protocol):
    """`sqlalchemy.dialects.<dialect>.insert`."""

    def __call__(self, table: Table, /) -> Insert: ...


_INSERTS: dict[str, InsertInto] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def per_dialect(describe: Callable[[InsertInto], Executable]) -> Callable[[Connection], Executable]:
    """Return the statement that `describe` builds, for the dialect of a connection."""

    @cache
    def built(dialect: str) -> Executable:
        return describe(_INSERTS[dialect])

    @wraps(describe)
    def for_connection(connection: Connection) -> Executable:
        return built(connection.dialect.name)

    return for_connection


def upsert(table: Table, *names: str) -> Callable[[Connection], Executable]:
    """Describe an INSERT that gives a row with the same key new values of these columns."""

    def describe(insert: InsertInto) -> Executable:
        statement = insert(table)
        new = {name: statement.excluded[name] for name in names}
        return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new)

    return per_dialect(describe)


def insert_new(table: Table) -> Callable[[Connection], Executable]:
    """Describe an INSERT that leaves a row with the same key as it is."""
    return per_dialect(lambda insert: insert(table).on_conflict_do_nothing())


NOT_MIGRATED: Final = "the database has no Trivet schema of this version: run `trivet migrate`"

_SQLITE_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another connection",
    sqlite3.SQLITE_FULL: "has no room left on its disk",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk error)",
}
_SQLITE_CONFIG: Final = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and its permissions",
    sqlite3.SQLITE_READONLY: "may not be written: check its permissions",
    sqlite3.SQLITE_PERM: "may not be opened: check its permissions",
    sqlite3.SQLITE_AUTH: "may not be opened: check its permissions",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database: name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
}

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES_UNAVAILABLE: Final = {
    "08": "closed the connection",
    "25P03": "ended a transaction that stood still",
    "40": "gave another transaction precedence",
    "53": "has no room left (connections, memory or disk)",
    "55": "is locked",
    "57": "is starting, stopping or busy",
}
_POSTGRES_CONFIG: Final = {
    "28": "refused the user or the password of database.url",
    "3D": "has no database of that name: create it, or change database.url",
    "42501": "does not allow this user to use Trivet's tables: grant the rights, or change the user",
}
_POSTGRES_SCHEMA: Final = frozenset({"42P01", "42703", "3F000"})  # no such table, column, schema


@contextmanager
def in_our_words(url: URL) -> Iterator[None]:
    """Let every error of the database and its driver leave as one of `gateway.contracts.errors`."""
    try:
        yield
    except TrivetError:
        raise
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"{_place(url)} is overloaded: no connection became free in time") from error
    except exc.DBAPIError as error:
        raise _from_driver(error, url) from error
    except exc.SQLAlchemyError as error:
        raise StoreError(f"{_place(url)}: {type(error).__name__}") from error
    except OSError as error:
        raise StoreUnavailable(f"{_place(url)} cannot be reached ({_short(error)})") from error


def _from_driver(error: exc.DBAPIError, url: URL) -> TrivetError:
    cause = error.orig
    place = _place(url)
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause, place)
    state = str(getattr(cause, "sqlstate", None) or "")
    if state in _POSTGRES_SCHEMA:
        return SchemaMismatch(NOT_MIGRATED)
    for code in (state, state[:2]):
        if code in _POSTGRES_CONFIG:
            return ConfigError(f"{place} {_POSTGRES_CONFIG[code]}")
        if code in _POSTGRES_UNAVAILABLE:
            return StoreUnavailable(f"{place} {_POSTGRES_UNAVAILABLE[code]}")
    if error.connection_invalidated:
        return StoreUnavailable(f"{place} closed the connection")
    return StoreError(f"{place} refused a statement ({type(cause).__name__} {state})".rstrip())


def _from_sqlite(cause: sqlite3.Error, place: str) -> TrivetError:
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _SQLITE_UNAVAILABLE:
        return StoreUnavailable(f"{place} {_SQLITE_UNAVAILABLE[code]}")
    if code in _SQLITE_CONFIG:
        return ConfigError(f"{place} {_SQLITE_CONFIG[code]}")
    if "no such table" in str(cause) or "no such column" in str(cause):
        return SchemaMismatch(NOT_MIGRATED)
    return StoreError(f"{place} refused a statement ({getattr(cause, 'sqlite_errorname', type(cause).__name__)})")


def _place(url: URL) -> str:
    """Return the database as an operator knows it, without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    host = url.host or url.query.get("host") or "localhost"
    port = f":{url.port}" if url.port else ""
    return f"the database {url.database} on {host}{port}"


def _short(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


VERSION_MIN: Final = (3, 35, 0)
"""The first SQLite with RETURNING."""

_WAL_RETRY_S: Final = 0.01


class InThreadConnection(AsyncAdapt_aiosqlite_connection):
    """SQLAlchemy's adapter, which on the connection's own thread goes straight to SQLite."""

    __slots__ = ()

    def _is_home(self) -> bool:
        return threading.current_thread() is self._connection._thread

    def cursor(self, server_side: bool = False) -> Any:
        """Open a DBAPI cursor."""
        return self._connection._conn.cursor() if self._is_home() else super().cursor(server_side)

    def commit(self) -> None:
        """End the transaction and keep its work."""
        if self._is_home():
            self._connection._conn.commit()
        else:
            super().commit()

    def rollback(self) -> None:
        """End the transaction and drop its work."""
        if self._is_home():
            self._connection._conn.rollback()
        else:
            super().rollback()


def sqlite_engine(url: URL, *, busy_timeout_s: float, connections_max: int, writes: bool) -> AsyncEngine:
    """Make a pool of connections to one file.

    `writes` starts each transaction with BEGIN IMMEDIATE: a transaction that reads first and writes later could
    otherwise find that somebody else wrote in between, which no waiting mends."""
    engine = create_async_engine(
        url,
        pool_size=connections_max,
        max_overflow=0,
        pool_timeout=STORE_POOL_WAIT_S,
        pool_reset_on_return=None,  # every transaction is ended by whoever began it
        hide_parameters=True,
        connect_args={"isolation_level": None, "timeout": busy_timeout_s},
    )

    @event.listens_for(engine.sync_engine, "do_connect")
    def connect(dialect: Any, _record: Any, arguments: Any, options: Any) -> InThreadConnection:
        driver: Any = aiosqlite.connect(*arguments, **options)
        driver._thread.daemon = True  # a connection that nobody closed must not keep the process alive
        try:
            await_(driver)
            await_(driver._execute(_prepare, driver, busy_timeout_s))
        except BaseException:
            driver.stop()
            driver._thread.join()  # its last word goes to this event loop, which may be about to close
            raise
        return InThreadConnection(dialect.dbapi, driver)

    if writes:

        @event.listens_for(engine.sync_engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _prepare(driver: aiosqlite.Connection, busy_timeout_s: float) -> None:
    connection = driver._conn
    _use_wal(connection, busy_timeout_s)
    connection.execute("PRAGMA foreign_keys = ON")


def _use_wal(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Use a write-ahead log. The file remembers its journal mode, so only a new file is really changed. SQLite does not
    apply its busy timeout to that change: of several processes that open a new file, one is refused at once."""
    deadline_s = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(_WAL_RETRY_S)


async def run_in_thread(connection: AsyncConnection, work: Callable[[Connection], T], *, durable: bool | None) -> T:
    """Call `work` on the connection's thread. Once begun it runs to its end, even if the caller is cancelled:
    nobody may give the connection back while its thread still uses it."""
    handed_over = connection.sync_connection
    assert handed_over is not None
    driver: Any = handed_over.connection.driver_connection

    def there() -> T:
        if durable is not None:
            driver._conn.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        return work(handed_over)

    job: asyncio.Task[T] = asyncio.ensure_future(driver._execute(there))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        while not job.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        if not job.cancelled():
            job.exception()
        raise


Work = Callable[[Connection], T]

_FORMS: Final = "`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://user:password@host/name`"


class Runner(Protocol):
    """How a function of a synchronous connection is run on an asynchronous one."""

    def __call__(self, connection: AsyncConnection, work: Work[T], /, *, durable: bool | None) -> Awaitable[T]:
        """Run `work`; `durable` as in `Database.write`; None for work that leaves nothing to be kept."""
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


class Aggregate:
    """Tables of one database that belong together. Each method that is marked below is one transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock


def read(
    method: Callable[Concatenate[A, Connection, P], T],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method with no transaction around it: each statement sees one state of its own."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: method(self, connection, *args, **kwargs))

    return run


def write(
    method: Callable[Concatenate[A, Connection, P], T],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method in one transaction: all of it or nothing."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: method(self, connection, *args, **kwargs))

    return run


def reading(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Aggregate, P], Coroutine[Any, Any, T]]:
    """Make a method of a function that is part of other transactions, too: `read` of that function."""

    @wraps(work)
    async def run(self: Aggregate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: work(connection, *args, **kwargs))

    return run


def writing(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Aggregate, P], Coroutine[Any, Any, T]]:
    """Make a method of a function that is part of other transactions, too: `write` of that function."""

    @wraps(work)
    async def run(self: Aggregate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: work(connection, *args, **kwargs))

    return run


def write_unsynced(
    method: Callable[Concatenate[A, Connection, P], T],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method in one transaction that survives the death of every process, but need not survive a power cut."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: method(self, connection, *args, **kwargs), durable=False)

    return run


def open_database(url: str, *, busy_timeout_s: float) -> Database:
    """Open a database; nothing is connected yet. Raises `ConfigError` for a URL that names no database we can use."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, busy_timeout_s)
    return _open_postgres(parsed)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a database URL; None for a database on a server. Raises `ConfigError` as `open_database`
    does."""
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
    """Run `work`. PostgreSQL is as durable as its server is told to be; it gathers the commits of many into one
    sync."""
    return await connection.run_sync(work)


def _truncate_log(connection: Connection) -> None:
    """Shrink the log. With a reader in the way it waits as long as for any lock; then the next checkpoint does it."""
    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.rollback()


def _in_transaction(work: Work[T]) -> Work[T]:
    """Wrap `work` into a transaction. A reader's is none (AUTOCOMMIT): the frame only ends it on the right thread."""

    def transaction(connection: Connection) -> T:
        with connection.begin():
            return work(connection)

    return transaction


Values = dict[str, Any]
"""Column values by name, as an INSERT takes them."""


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
