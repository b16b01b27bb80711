"""SQLite: whole transactions on a thread of aiosqlite's, and the writes that wait gathered into one.

aiosqlite owns the connections and their threads. It hands each call to its thread singly, four hops for one statement,
and a turn has some fifteen: so a whole transaction is handed over as one call.

One connection writes, so that the tasks of a process queue fairly instead of polling for the file lock, and a few read,
which WAL never blocks. While a transaction runs, more writes arrive. They become the next transaction together:

    BEGIN IMMEDIATE   SAVEPOINT, first job, RELEASE   SAVEPOINT, second job, RELEASE   …   COMMIT   everybody hears

A job that fails is undone by itself. Nobody hears before the COMMIT, which is synced if one of the jobs wants that:
what somebody was told is there, whatever dies."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

import aiosqlite
from sqlalchemy import Connection as SqlalchemyConnection
from sqlalchemy import Dialect, Executable, Row, StaticPool, create_engine, exc
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy.engine import URL

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TrivetError
from gateway.limits import SQLITE_READERS_MAX, STORE_POOL_WAIT_S, WRITE_WAITS_S, WRITES_GATHERED_MAX
from gateway.store.statements import STATEMENTS_PREPARED, FetchedRows, named_rows, plan_of

T = TypeVar("T")

NOT_MIGRATED: Final = "the database has no Trivet schema of this version: run `trivet migrate`"

_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another connection",
    sqlite3.SQLITE_FULL: "has no room left on its disk",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk error)",
}
_CONFIG: Final = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and its permissions",
    sqlite3.SQLITE_READONLY: "may not be written: check its permissions",
    sqlite3.SQLITE_PERM: "may not be opened: check its permissions",
    sqlite3.SQLITE_AUTH: "may not be opened: check its permissions",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database: name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
}
_ERRORS: Final = (sqlite3.Error, exc.SQLAlchemyError, TimeoutError)
_WAL_RETRY_S: Final = 0.01
_DIALECT: Final[Dialect] = pysqlite.dialect()


class SqliteConnection:
    """The part of SQLAlchemy's `Connection` that the functions of the store use; only on the thread that owns it."""

    __slots__ = ("_raw",)

    dialect = _DIALECT

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def execute(self, statement: Executable, parameters: Any = None, /) -> FetchedRows:
        """Run a statement, with a list of parameters once for each of them."""
        if isinstance(parameters, list | tuple):
            plan = plan_of(statement, parameters[0], _DIALECT)
            values = [plan.with_values(statement, each)[1] for each in parameters]
            return self._fetched(self._raw.executemany(plan.sql, values))
        plan = plan_of(statement, parameters or {}, _DIALECT)
        return self._fetched(self._raw.execute(*plan.with_values(statement, parameters or {})), plan.make_row)

    def exec_driver_sql(self, statement: str, /) -> FetchedRows:
        """Run a statement in SQLite's own words."""
        return self._fetched(self._raw.execute(statement))

    def _fetched(
        self, cursor: sqlite3.Cursor, make_row: Callable[[Sequence[Any]], Row[Any]] | None = None
    ) -> FetchedRows:
        if cursor.description is None:
            return FetchedRows([], cursor.rowcount)
        if make_row is None:
            make_row = named_rows([column[0] for column in cursor.description], ())
        rows = list(map(make_row, cursor))  # only then `rowcount` is known
        return FetchedRows(rows, cursor.rowcount)

    @contextmanager
    def as_sqlalchemy(self) -> Iterator[SqlalchemyConnection]:
        """Lend SQLAlchemy's own connection, for what looks at the schema or changes it. It ends no transaction."""
        lent: Any = _Lent(self._raw)
        engine = create_engine("sqlite://", creator=lambda: lent, poolclass=StaticPool, hide_parameters=True)
        with engine.begin() as connection:
            yield connection


class _Lent:
    """A DBAPI connection whose transaction somebody else ends."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def commit(self) -> None:
        """Leave the transaction open."""

    rollback = close = commit


# --- jobs

Work = Callable[[SqliteConnection], T]


class _Job(Generic[T]):
    """A piece of work for a thread, and the caller who waits for it."""

    __slots__ = ("_error", "_heard", "_is_over", "_result", "is_durable", "work")

    def __init__(self, work: Work[T], *, is_durable: bool = False) -> None:
        self.work = work
        self.is_durable = is_durable
        self._heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._is_over = False

    def do(self, connection: SqliteConnection) -> None:
        """Do the work, on the thread."""
        self._result = self.work(connection)

    def fail(self, error: BaseException) -> None:
        """Note, on the thread, why nothing came of it; the first reason is the one that is told."""
        self._error = self._error or error

    def tell(self) -> None:
        """Tell the caller how it ended, on the event loop."""
        self._is_over = True
        if self._heard.done():
            return
        if self._error is None:
            self._heard.set_result(self._result)
        else:
            self._heard.set_exception(self._error)

    async def heard(self, waiting: list[_Job[Any]]) -> T:
        """Return the result. A caller who is cancelled while the job is among the `waiting` takes it back; later the
        caller stays until it is done, because the thread still uses what belongs to the caller."""
        try:
            return await self._heard  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            if self in waiting:
                waiting.remove(self)
            else:
                await self._ended()
            raise

    async def _ended(self) -> None:
        while not self._is_over:
            self._heard = asyncio.get_running_loop().create_future()
            with suppress(BaseException):
                await self._heard


class _Opener:
    """Opens connections to one file."""

    def __init__(self, path: str, busy_timeout_s: float) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    async def open(self) -> Any:
        """Open a connection of aiosqlite with its thread. Raises `sqlite3.Error`."""
        driver: Any = aiosqlite.connect(
            self._path, isolation_level=None, timeout=self._busy_timeout_s, cached_statements=STATEMENTS_PREPARED
        )
        driver._thread.daemon = True  # a connection that nobody closed must not keep the process alive
        try:
            await driver
            await driver._execute(self._prepare, driver)
        except BaseException:
            driver.stop()
            driver._thread.join()  # its last word goes to this event loop, which may be about to close
            raise
        return driver

    def _prepare(self, driver: Any) -> None:
        self._use_wal(driver._conn)
        driver._conn.execute("PRAGMA foreign_keys = ON")

    def _use_wal(self, raw: sqlite3.Connection) -> None:
        """Use a write-ahead log. The file remembers its journal mode, so only a new file is really changed. SQLite does
        not apply its busy timeout to that change: of several processes that open a new file, one is refused at once."""
        deadline_s = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                raw.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                    raise
                time.sleep(_WAL_RETRY_S)


class _Writer:
    """The connection that writes, one transaction at a time; the jobs that arrive meanwhile are the next one."""

    def __init__(self, opener: _Opener) -> None:
        self._opener = opener
        self._opening = asyncio.Lock()
        self._driver: Any = None
        self._is_synced: bool | None = None
        self._waiting: list[_Job[Any]] = []
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    async def do(self, work: Work[T], *, is_durable: bool, is_urgent: bool) -> T:
        """Do the work in a transaction, perhaps together with others; what is not urgent waits WRITE_WAITS_S for such.
        It is never begun if its caller is cancelled before; once begun it runs to its end."""
        if self._driver is None:
            async with self._opening:
                if self._driver is None:
                    self._driver = await self._opener.open()
                    # SQLite keeps what it would undo for one of several jobs, above 64 kB in a file that it makes and
                    # removes: for nearly every turn. Not for readers, who may sort more than memory should hold.
                    await self._driver.execute("PRAGMA temp_store = MEMORY")
        job = _Job(work, is_durable=is_durable)
        self._waiting.append(job)
        if is_urgent:
            self._start_waiting()
        else:
            asyncio.get_running_loop().call_later(WRITE_WAITS_S, self._start_waiting)
        return await job.heard(self._waiting)

    async def close(self) -> None:
        """Finish what waits, then close the connection."""
        self._start_waiting()
        await self._at_rest.wait()
        if self._driver is not None:
            driver, self._driver, self._is_synced = self._driver, None, None
            await driver.close()

    def _start_waiting(self) -> None:
        if self._waiting and self._at_rest.is_set():
            self._start()

    def _start(self) -> None:
        driver = self._driver
        jobs = self._waiting[:WRITES_GATHERED_MAX]
        del self._waiting[:WRITES_GATHERED_MAX]
        self._at_rest.clear()
        driver._tx.put_nowait((None, partial(self._run, driver._conn, jobs, asyncio.get_running_loop())))

    def _run(self, raw: sqlite3.Connection, jobs: Sequence[_Job[Any]], loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._transact(raw, jobs)
        except BaseException as error:  # noqa: BLE001 - it is told to everybody who waits
            for job in jobs:
                job.fail(error)
        loop.call_soon_threadsafe(self._end, jobs)

    def _transact(self, raw: sqlite3.Connection, jobs: Sequence[_Job[Any]]) -> None:
        """Do the jobs in one transaction. What is raised undid all of them."""
        if raw.in_transaction:  # a disk error did not even let the last one be undone
            raw.execute("ROLLBACK")
        self._sync(raw, is_synced=any(job.is_durable for job in jobs))
        raw.execute("BEGIN IMMEDIATE")
        connection = SqliteConnection(raw)
        try:
            if len(jobs) == 1:
                jobs[0].do(connection)
            else:
                for job in jobs:
                    self._do_apart(job, connection, raw)
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise

    def _do_apart(self, job: _Job[Any], connection: SqliteConnection, raw: sqlite3.Connection) -> None:
        raw.execute("SAVEPOINT job")
        try:
            job.do(connection)
        except BaseException as error:
            if not raw.in_transaction:  # a full disk: SQLite has undone what all did
                raise
            raw.execute("ROLLBACK TO job")
            job.fail(error)
        raw.execute("RELEASE job")

    def _sync(self, raw: sqlite3.Connection, *, is_synced: bool) -> None:
        if is_synced is not self._is_synced:
            raw.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced

    def _end(self, jobs: Sequence[_Job[Any]]) -> None:
        for job in jobs:
            job.tell()
        if self._waiting:
            self._start()
        else:
            self._at_rest.set()


class _Readers:
    """A few connections that read, each one statement or some at a time for one caller."""

    def __init__(self, opener: _Opener) -> None:
        self._opener = opener
        self._free = asyncio.Semaphore(SQLITE_READERS_MAX)
        self._idle: list[Any] = []

    async def do(self, work: Work[T]) -> T:
        """Do the work on a connection that is free. Raises `TimeoutError` if none becomes free in time."""
        async with asyncio.timeout(STORE_POOL_WAIT_S if self._free.locked() else None):
            await self._free.acquire()
        try:
            driver = self._idle.pop() if self._idle else await self._opener.open()
            try:
                job = _Job(work)
                loop = asyncio.get_running_loop()
                driver._tx.put_nowait((None, partial(self._run, driver._conn, job, loop)))
                return await job.heard([])
            finally:
                self._idle.append(driver)
        finally:
            self._free.release()

    def _run(self, raw: sqlite3.Connection, job: _Job[Any], loop: asyncio.AbstractEventLoop) -> None:
        try:
            job.do(SqliteConnection(raw))
        except BaseException as error:  # noqa: BLE001 - the waiting caller is told
            job.fail(error)
        loop.call_soon_threadsafe(job.tell)

    async def close(self) -> None:
        """Close the connections once nobody uses them."""
        for _ in range(SQLITE_READERS_MAX):
            await self._free.acquire()
        for _ in range(SQLITE_READERS_MAX):
            self._free.release()
        while self._idle:
            await self._idle.pop().close()


class SqliteDatabase:
    """One file. Errors of its methods are those of `gateway.contracts.errors`, in one sentence without a text."""

    has_one_writer: Final = True
    """Whether a transaction sees everything that was written before it commits, by other processes, too."""

    def __init__(self, url: URL, *, busy_timeout_s: float) -> None:
        """Keep the URL of the file; nothing is connected yet. `busy_timeout_s` is how long another process's
        transaction is waited for."""
        self.url = url
        opener = _Opener(str(url.database), busy_timeout_s)
        self._writer = _Writer(opener)
        self._readers = _Readers(opener)
        self._has_worked = False

    async def write(self, work: Work[T], *, durable: bool = True, urgent: bool = True) -> T:
        """Run `work` in one transaction: all of it or nothing. One that is not `durable` survives the death of every
        process, but need not survive a power cut. One that is not `urgent` may wait for the next."""
        try:
            result = await self._writer.do(work, is_durable=durable, is_urgent=urgent)
        except _ERRORS as error:
            raise self._in_our_words(error) from error
        self._has_worked = True
        return result

    async def read(self, work: Work[T]) -> T:
        """Run `work` with no transaction around it: each statement sees one state of its own."""
        try:
            return await self._readers.do(work)
        except _ERRORS as error:
            raise self._in_our_words(error) from error

    async def forget_pages(self) -> None:
        """Leave no old state of a page behind, of which the log has one for every page that was changed. With a reader
        in the way it waits as long as for any lock; then the next checkpoint does it."""
        await self.read(_truncate_log)

    async def close(self) -> None:
        """Close all connections."""
        await self._readers.close()
        await self._writer.close()

    def _in_our_words(self, error: Exception) -> TrivetError:
        place = f"the database {self.url.database}"
        # SQLAlchemy's own connection, which migrations use, wraps what SQLite says.
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            return _translated(cause, place, has_worked=self._has_worked)
        if isinstance(error, TimeoutError):
            return StoreUnavailable(f"{place} is overloaded: no connection became free in time")
        return StoreError(f"{place}: {type(error).__name__}")


def _truncate_log(connection: SqliteConnection) -> None:
    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _translated(cause: sqlite3.Error, place: str, *, has_worked: bool) -> TrivetError:
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"{place} {_UNAVAILABLE[code]}")
    if code in _CONFIG:  # what was right before will be again: the operator is at work, or descriptors are short
        return (StoreUnavailable if has_worked else ConfigError)(f"{place} {_CONFIG[code]}")
    if "no such table" in str(cause) or "no such column" in str(cause):
        return SchemaMismatch(NOT_MIGRATED)
    return StoreError(f"{place} refused a statement ({getattr(cause, 'sqlite_errorname', type(cause).__name__)})")
