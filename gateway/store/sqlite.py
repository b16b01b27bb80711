"""SQLite through aiosqlite: one hop to the connection's thread per transaction.

aiosqlite gives every connection a thread and hands it each call singly: create a cursor, execute, fetch,
close, four hops for one statement. A turn has some fifteen statements, so the hops would cost more than
the work. Here a whole transaction runs on the thread: SQLAlchemy's synchronous `Connection` is handed
over, and the adapter below talks to SQLite directly while it is there.

Durability. With WAL, `synchronous=NORMAL` survives the death of any process; `FULL` survives a power cut,
too, at one fdatasync per commit. The bus forgets a message once its turn is committed, and syncs its own log
at every write, so a turn is committed with FULL. What the bus would bring again (a turn that has begun, a
reply marked as published) is not.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import aiosqlite
from sqlalchemy import Connection, event
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util.concurrency import await_

from gateway.limits import STORE_POOL_WAIT_S

T = TypeVar("T")

VERSION_MIN: Final = (3, 35, 0)
"""The first SQLite with RETURNING."""

_WAL_RETRY_S: Final = 0.01


class InThreadConnection(AsyncAdapt_aiosqlite_connection):
    """SQLAlchemy's adapter, which on the connection's own thread goes straight to SQLite."""

    __slots__ = ()

    def _is_home(self) -> bool:
        return threading.current_thread() is self._connection._thread

    def cursor(self, server_side: bool = False) -> Any:
        """A DBAPI cursor."""
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
    """A pool of connections to one file.

    `writes` starts each transaction with BEGIN IMMEDIATE: a transaction that reads first and writes later
    could otherwise find that somebody else wrote in between, which no waiting mends.
    """
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
    """The file remembers its journal mode, so only a new file is really changed. SQLite does not apply its
    busy timeout to that change: of several processes that open a new file, one is refused at once."""
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
