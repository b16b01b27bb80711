"""PostgreSQL: transactions on the connections of asyncpg's pool. SQLAlchemy describes the statements and lends the
greenlets in which the functions of the store wait without being coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Connection as SqlalchemyConnection
from sqlalchemy import Executable, StaticPool, create_engine, exc
from sqlalchemy.dialects.postgresql import asyncpg as driver
from sqlalchemy.engine import URL
from sqlalchemy.util.concurrency import await_only, greenlet_spawn

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TrivetError
from gateway.limits import (
    POSTGRES_CONNECTIONS_MAX,
    STORE_CONNECT_TIMEOUT_S,
    STORE_KEEPALIVE_S,
    STORE_POOL_WAIT_S,
    STORE_RELEASE_S,
    STORE_STANDSTILL_S,
    STORE_STATEMENT_TIMEOUT_S,
    STORE_TRANSACTION_MAX_S,
)
from gateway.store.sqlite import NOT_MIGRATED
from gateway.store.statements import STATEMENTS_PREPARED, FetchedRows, named_rows, plan_of

T = TypeVar("T")

_WITH_BOUNDED_TRANSACTIONS: Final = 17  # of PostgreSQL, the first with `transaction_timeout`

_DIALECT: Final[Any] = driver.dialect()  # type: ignore[no-untyped-call]

_ADDRESS: Final = ("host", "port", "user", "password", "database", "passfile", "service", "servicefile")
_OPTIONS: Final = frozenset(
    [*_ADDRESS, "ssl", "direct_tls", "target_session_attrs", "krbsrvname", "gsslib", "prepared_statement_cache_size"]
)
"""Of a URL: the parts that SQLAlchemy names, and what asyncpg takes besides."""

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNAVAILABLE: Final = {
    "08": "closed the connection",
    "0A000": "has had its tables changed",  # of a statement that was prepared before; the next try prepares it anew
    "25006": "takes no writes now, as a standby does",
    "25P03": "ended a transaction that stood still",
    "40": "gave another transaction precedence",
    "53": "has no room left (connections, memory or disk)",
    "55": "is locked",
    "57": "is starting, stopping or busy",
}
_CONFIG: Final = {
    "28": "refused the user or the password of database.url",
    "3D": "has no database of that name: create it, or change database.url",
    "42501": "does not allow this user to use Trivet's tables: grant the rights, or change the user",
}
_SCHEMA: Final = frozenset({"42P01", "42703", "3F000"})  # no such table, column, schema
_SHOWS_VALUES: Final = ("22", "23")  # such an error tells the value or the row that was refused


class PostgresConnection:
    """The part of SQLAlchemy's `Connection` that the functions of the store use; only within `greenlet_spawn`."""

    __slots__ = ("_raw",)

    dialect = _DIALECT

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def execute(self, statement: Executable, parameters: Any = None, /) -> FetchedRows:
        """Run a statement, with a list of parameters once for each of them."""
        if isinstance(parameters, list | tuple):
            plan = plan_of(statement, parameters[0], _DIALECT)
            await_only(self._raw.executemany(plan.sql, [plan.with_values(statement, each)[1] for each in parameters]))
            return FetchedRows([], -1)
        plan = plan_of(statement, parameters or {}, _DIALECT)
        sql, values = plan.with_values(statement, parameters or {})
        if plan.make_row is not None or not statement.is_dml:
            return self._fetched(sql, values, plan.make_row)
        status = await_only(self._raw.execute(sql, *values))  # such as `UPDATE 1`
        return FetchedRows([], int(status.rpartition(" ")[2]))

    def exec_driver_sql(self, statement: str, /) -> FetchedRows:
        """Run a statement in PostgreSQL's own words."""
        return self._fetched(statement, ())

    def _fetched(self, sql: str, values: Any, make_row: Callable[[Any], Any] | None = None) -> FetchedRows:
        found = await_only(self._raw.fetch(sql, *values))
        if found and make_row is None:
            make_row = named_rows(list(found[0].keys()), ())
        return FetchedRows([make_row(tuple(row)) for row in found] if make_row else [], len(found))

    @contextmanager
    def as_sqlalchemy(self) -> Iterator[SqlalchemyConnection]:
        """Lend SQLAlchemy's own connection, for what looks at the schema or changes it. Within a transaction it begins
        one of its own, a savepoint."""
        lent = driver.AsyncAdapt_asyncpg_connection(_DIALECT.import_dbapi(), self._raw)  # type: ignore[no-untyped-call]
        engine = create_engine(
            "postgresql+asyncpg://", creator=lambda: lent, poolclass=StaticPool, hide_parameters=True
        )
        with engine.begin() as connection:
            yield connection


class PostgresDatabase:
    """A database on a server, which is as durable as it is told to be and gathers the commits of many into one sync."""

    has_one_writer: Final = False

    def __init__(self, url: URL) -> None:
        """Keep the URL; nothing is connected yet."""
        self.url = url
        self._opening = asyncio.Lock()
        self._pool: Any = None
        self._has_worked = False

    async def write(self, work: Callable[[PostgresConnection], T], *, durable: bool = True, urgent: bool = True) -> T:
        """Run `work` in one transaction: all of it or nothing. How durable that is the server decides."""
        with self._in_our_words():
            async with self.connection() as raw:
                transaction = raw.transaction()  # no `async with`: its rollback would wait for a server that is gone
                await transaction.__aenter__()
                result = await greenlet_spawn(work, PostgresConnection(raw))
                await transaction.__aexit__(None, None, None)
                return result

    async def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run `work` with no transaction around it: each statement sees one state of its own."""
        with self._in_our_words():
            async with self.connection() as raw:
                return await greenlet_spawn(work, PostgresConnection(raw))

    async def forget_pages(self) -> None:
        """Do nothing: PostgreSQL clears up by itself, in its own time."""

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection of asyncpg's, whose transaction is rolled back if it is still open at the end. Raises
        `StoreUnavailable` if none becomes free in time."""
        async with self._opening:
            if self._pool is None:
                self._pool = await self._open()
            pool = self._pool
        try:
            raw = await pool.acquire(timeout=STORE_POOL_WAIT_S)
        except TimeoutError as error:
            if pool.get_size() < POSTGRES_CONNECTIONS_MAX:
                raise
            raise StoreUnavailable(f"{self._place()} is overloaded: no connection became free in time") from error
        try:
            yield raw
        finally:
            # One that the server does not end in time is cut. Nobody who was cancelled shall wait for that, or hear an
            # error of the database instead.
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await pool.release(raw, timeout=STORE_RELEASE_S)

    async def _open(self) -> Any:
        """Make a pool, which connects when it is asked for a connection. Raises `ConfigError` for a wrong URL."""
        try:
            _, options = _DIALECT.create_connect_args(self.url)
        except exc.ArgumentError as error:
            raise ConfigError("database.url has hosts and ports that do not fit: each host needs a port") from error
        except (ValueError, TypeError) as error:
            raise ConfigError("database.url has an option that is no number: write it once, in digits") from error
        if unknown := options.keys() - _OPTIONS:
            raise ConfigError(f"database.url has the option `{min(unknown)[:40]}`, which Trivet does not take")
        kept = options.pop("prepared_statement_cache_size", STATEMENTS_PREPARED)  # 0 for some poolers
        return await asyncpg.create_pool(
            **options,
            min_size=0,
            max_size=POSTGRES_CONNECTIONS_MAX,
            timeout=STORE_CONNECT_TIMEOUT_S,
            command_timeout=STORE_STATEMENT_TIMEOUT_S,
            statement_cache_size=kept,
            server_settings={"idle_in_transaction_session_timeout": str(round(STORE_STANDSTILL_S * 1000))},
            init=_bound_transactions,
            reset=_keep_settings,
        )

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
            self._has_worked = True
        except asyncpg.ClientConfigurationError as error:
            raise ConfigError("database.url gives an option a value that asyncpg refuses") from error
        except asyncpg.InterfaceError as error:
            if "clos" in str(error):
                raise StoreUnavailable(f"{self._place()} closed the connection") from error
            raise StoreError(f"{self._place()} refused a statement ({type(error).__name__})") from error
        except asyncpg.InternalClientError as error:  # such as no server of the kind that the URL asks for
            raise StoreUnavailable(f"{self._place()} cannot be used now ({type(error).__name__})") from error
        except (asyncpg.PostgresError, exc.DBAPIError) as error:
            cause = error.orig if isinstance(error, exc.DBAPIError) else error
            state = str(getattr(cause, "sqlstate", None) or "")
            raise self._translated(cause, state) from (None if state.startswith(_SHOWS_VALUES) else error)
        except exc.SQLAlchemyError as error:
            raise StoreError(f"{self._place()}: {type(error).__name__}") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreUnavailable(f"{self._place()} cannot be reached ({reason})") from error

    def _translated(self, cause: BaseException | None, state: str) -> TrivetError:
        if state in _SCHEMA:
            return SchemaMismatch(NOT_MIGRATED)
        for code in (state, state[:2]):
            if code in _CONFIG:  # what was right at the start will be again: the operator is at work
                error_type = StoreUnavailable if self._has_worked else ConfigError
                return error_type(f"{self._place()} {_CONFIG[code]}")
            if code in _UNAVAILABLE:
                return StoreUnavailable(f"{self._place()} {_UNAVAILABLE[code]}")
        names = (getattr(cause, name, None) for name in ("constraint_name", "column_name"))
        reason = " ".join(filter(None, [type(cause).__name__, state, *names]))
        return StoreError(f"{self._place()} refused a statement ({reason})")

    def _place(self) -> str:
        """Return the database as an operator knows it, without user, password and options."""
        host = self.url.host or self.url.query.get("host") or "localhost"
        port = f":{self.url.port}" if self.url.port else ""
        return f"the database {self.url.database} on {host}{port}"


async def _bound_transactions(connection: Any) -> None:
    """Have the server end our transaction, and with it our locks, when this machine is lost or this process stands
    still. Between the two halves of a prepared statement a session counts as active, not as idle in its transaction;
    servers before PostgreSQL 17 know no bound for that, and notice a lost machine alone."""
    settings = {"tcp_keepalives_idle": STORE_KEEPALIVE_S, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
    if connection.get_server_version().major >= _WITH_BOUNDED_TRANSACTIONS:
        settings["transaction_timeout"] = round(STORE_TRANSACTION_MAX_S * 1000)
    await connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))


async def _keep_settings(_connection: Any) -> None:
    """Leave a connection as it is when it goes back: asyncpg would ask the server to undo our settings, a trip more."""
