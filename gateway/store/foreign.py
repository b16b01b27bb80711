"""Databases of the operator's, read and never written: what `db_query` asks.

Three locks each. SQLite: those of `gateway.store.sqlite_reader`. PostgreSQL: a read-only transaction that is always
rolled back, in it a cursor, which the server declares for a query only, and a user whom the server lets reach no file,
no program and no other session's process. What the server lets every user do besides (waiting, advisory locks, messages
in its log, signals to sessions of the same user) ends after FOREIGN_TIMEOUT_S."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from gateway import limits
from gateway.config.derived import check_installed
from gateway.contracts.errors import ConfigError, QueryRefused
from gateway.scrub.raw_text import head
from gateway.store import sqlite_reader

_log = structlog.get_logger(__name__)

_FORMS: Final = "`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://user:password@host/name`"
_COMMENT: Final = re.compile(r"--[^\n]*\n?|/\*.*?\*/", re.DOTALL)
_FIRST_WORD: Final = re.compile(r"[\s(]*([A-Za-z]+)")
_QUESTIONS: Final = frozenset({"select", "with", "values", "table", "show", "explain"})
_WORDS_CHARS_MAX: Final = 300

_UNREACHABLE: Final = "the database cannot be reached"
_CLOSE_S: Final = 2.0  # for an orderly end; then the socket is closed, which ends the server's part, too
_MILLISECONDS: Final = round(limits.FOREIGN_TIMEOUT_S * 1000)
_BEGIN: Final = (
    f"BEGIN READ ONLY; SET LOCAL statement_timeout = {_MILLISECONDS}; "
    f"SET LOCAL idle_in_transaction_session_timeout = {2 * _MILLISECONDS}"
)
_MIGHTY_ROLES: Final = (
    "pg_execute_server_program",
    "pg_read_server_files",
    "pg_signal_autovacuum_worker",
    "pg_signal_backend",
    "pg_write_server_files",
)
_OUTWARD_EXTENSIONS: Final = ("dblink", "http", "pg_background")
"""Their functions leave the transaction: they open connections, or run a statement in another session."""
_TOO_MIGHTY: Final = """
SELECT what FROM (
    SELECT 'as ' || r.rolname FROM pg_catalog.pg_roles r
    WHERE pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')
        AND (r.rolsuper OR r.rolreplication OR r.rolname = ANY ($1::name[]))
    UNION ALL
    SELECT 'by ' || p.proname FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_init_privs i ON i.objoid = p.oid AND i.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    WHERE pg_catalog.has_function_privilege(session_user, p.oid, 'EXECUTE')
        AND NOT pg_catalog.has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
    UNION ALL
    SELECT 'by ' || p.proname FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_depend d ON d.objid = p.oid AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
        AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
    WHERE e.extname = ANY ($2::name[]) AND pg_catalog.has_function_privilege(session_user, p.oid, 'EXECUTE')
) AS found (what) LIMIT 1
"""
"""The first thing that makes its user more than a reader: a role that it has or may take, or a function that the server
keeps from the public (what initdb revoked is in pg_init_privs) and somebody granted to it."""


class _Database(Protocol):
    async def check(self) -> None: ...

    async def ask(self, statement: str) -> Rows: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer of a foreign database, as text; None is NULL. `is_cut`: there was more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    is_cut: bool


class ForeignDatabases:
    """Databases of the operator that Trivet may read and never write, by their configured URLs. Connects for each
    question."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        """Raise `ConfigError` for a URL that names no database we can read."""
        self._databases = {name: _database(name, url) for name, url in urls.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """List how the databases are called."""
        return tuple(self._databases)

    async def ask(self, name: str, statement: str) -> Rows:
        """Run one reading statement. Raises `QueryRefused`."""
        database = self._databases.get(name)
        if database is None:
            raise QueryRefused(f"there is no database {name[:64]!r}; there are: {', '.join(self.names)}")
        if len(statement) > limits.FOREIGN_STATEMENT_CHARS_MAX or "\0" in statement:
            raise QueryRefused(f"a statement is text of at most {limits.FOREIGN_STATEMENT_CHARS_MAX} characters")
        return await database.ask(statement)

    async def check(self) -> None:
        """Raise `ConfigError` for a database whose user may do more than read. One that cannot be asked is none: it is
        asked again before each question."""
        await asyncio.gather(*map(self._check, self._databases.values()))

    async def _check(self, database: _Database) -> None:
        try:
            await database.check()
        except (QueryRefused, OSError) as error:
            _log.warning("database.unreachable", error=type(error.__cause__ or error).__name__)


def _database(name: str, text: str) -> _Database:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"the URL of the database {name!r} in tools.databases is none: write {_FORMS}") from None
    if url.drivername == "sqlite+aiosqlite" and url.database and not url.query:
        return _Sqlite(url.database)
    if url.drivername == "postgresql+asyncpg" and url.database and "sslmode" not in url.query:
        return _Postgres(name, url)
    raise ConfigError(f"the URL of the database {name!r} in tools.databases is not of a kind we read: write {_FORMS}")


class _Sqlite:
    """A file. Each question has a process of its own, which is killed when it takes too long."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def check(self) -> None:
        """Ask nothing: a file has no users."""

    async def ask(self, statement: str) -> Rows:
        # What does not begin like a question is refused here, in our words.
        first = _FIRST_WORD.match(_COMMENT.sub(" ", statement))
        if first is None or first[1].lower() not in _QUESTIONS:
            raise QueryRefused("only reading is allowed here: SELECT, WITH, VALUES, TABLE, SHOW, EXPLAIN")
        asked = {
            "path": self._path,
            "statement": statement,
            "rows_max": limits.FOREIGN_ROWS_MAX,
            "bytes_max": limits.FOREIGN_BYTES_MAX,
            "cell_chars": limits.FOREIGN_CELL_CHARS_MAX,
            "pattern_bytes": limits.FOREIGN_PATTERN_BYTES_MAX,
            "memory_bytes": limits.FOREIGN_MEMORY_BYTES,
            "cpu_s": math.ceil(limits.FOREIGN_TIMEOUT_S) + 1,
        }
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-I", sqlite_reader.__file__, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
        )
        try:
            async with asyncio.timeout(limits.FOREIGN_TIMEOUT_S):
                written, _ = await reader.communicate(json.dumps(asked).encode())
        except TimeoutError as error:
            raise QueryRefused(_too_slow()) from error
        finally:
            with suppress(ProcessLookupError):
                reader.kill()
        if not written:
            raise QueryRefused("the database could not be read")
        found = json.loads(written)
        if "refused" in found:
            raise QueryRefused(head(found["refused"], _WORDS_CHARS_MAX))
        return _rows(tuple(found["columns"]), found["rows"])


class _Postgres:
    """A server. Each question has a connection of its own, in a transaction that cannot write and is always rolled
    back."""

    def __init__(self, name: str, url: URL) -> None:
        """Raise `ConfigError` for an option that the driver does not know."""
        check_installed("postgresql", "tools.databases")
        import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415 - who has no such database does without it

        self._name = name
        self._driver: Any = asyncpg
        self._errors = (self._driver.PostgresError, self._driver.InterfaceError)
        _, self._wanted = url.get_dialect()().create_connect_args(url)
        try:
            inspect.signature(self._driver.connect).bind(**self._wanted)
        except TypeError:
            raise ConfigError(
                f"the URL of the database {name!r} in tools.databases has an option that is none: write {_FORMS}"
            ) from None

    async def check(self) -> None:
        try:
            async with asyncio.timeout(limits.FOREIGN_TIMEOUT_S), self._reading():
                pass
        except self._errors as error:
            raise QueryRefused(_UNREACHABLE) from error

    async def ask(self, statement: str) -> Rows:
        try:
            async with asyncio.timeout(limits.FOREIGN_TIMEOUT_S), self._reading() as connection:
                return await _ask_server(connection, statement.rstrip().removesuffix(";"))
        except TimeoutError as error:
            raise QueryRefused(_too_slow()) from error
        except self._driver.PostgresError as error:
            raise QueryRefused(_server_words(error)) from error
        except (self._driver.InterfaceError, OSError) as error:
            raise QueryRefused(_UNREACHABLE) from error
        except ConfigError as error:
            raise QueryRefused("the database is closed: its user may do more than read") from error

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Any]:
        """Open a transaction that only reads, of a user who may not do more. Raises `ConfigError` for any other
        user."""
        connection = await self._driver.connect(
            **self._wanted, timeout=limits.STORE_CONNECT_TIMEOUT_S, statement_cache_size=0
        )
        try:
            await connection.execute(_BEGIN)
            if found := await connection.fetchval(_TOO_MIGHTY, _MIGHTY_ROLES, _OUTWARD_EXTENSIONS):
                raise ConfigError(
                    f"the user of the database {self._name!r} in tools.databases may do more than read ({found}): "
                    "give Trivet one that may only read"
                )
            yield connection
        finally:
            # Closing rolls back. Nothing is committed, whatever happened.
            with suppress(*self._errors, OSError, TimeoutError):
                await connection.close(timeout=_CLOSE_S)


async def _ask_server(connection: Any, statement: str) -> Rows:
    """Ask; the server itself says whether it is a question: a cursor can be declared for nothing else.

    `fetch` sends by the extended protocol, which takes one statement. What a cursor was declared for is a whole query
    in balanced parentheses, so the second time it may be inside another one, by which the server cuts the cells:
    what nobody will read is not sent."""
    asked = await connection.prepare(f"DECLARE asked NO SCROLL CURSOR FOR {statement}")
    if asked.get_parameters():
        raise QueryRefused("a statement has no parameters such as $1: write the values into it")
    await asked.fetch()
    columns = (await connection.prepare("FETCH 0 FROM asked")).get_attributes()
    if not columns:
        return Rows((), (), is_cut=False)
    cells = ", ".join(_cut_cell(number, column.type.name) for number, column in enumerate(columns))
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    shown = f"SELECT {cells} FROM ({statement}\n) AS asked({names})"  # noqa: S608 - the server has read it as one query
    await connection.fetch(f"DECLARE shown NO SCROLL CURSOR FOR {shown}")
    next_rows = f"FETCH {max(1, limits.FOREIGN_ROWS_MAX // len(columns))} FROM shown"
    rows: list[Sequence[object]] = []
    size = 0
    while (
        len(rows) <= limits.FOREIGN_ROWS_MAX
        and size <= limits.FOREIGN_BYTES_MAX
        and (found := await connection.fetch(next_rows))
    ):
        rows += found
        size += sum(len(cell) for row in found for cell in row if cell)
    return _rows(tuple(column.name for column in columns), rows)


def _cut_cell(number: int, type_name: str) -> str:
    """Return the SQL that gives one cell as text, and no more of it than tells that it is too long."""
    if type_name == "bytea":
        return f"'(' || octet_length(c{number}) || ' bytes)'"
    return f"left(c{number}::text, {limits.FOREIGN_CELL_CHARS_MAX + 1})"


def _server_words(error: Any) -> str:
    state = str(error.sqlstate or "")
    if state == "57014":
        return _too_slow()
    if state == "25006":
        return "only reading is allowed here"
    if not state or state[:2] in ("08", "28", "3D", "53", "57"):
        return _UNREACHABLE
    if state == "42601":
        return f"one SELECT, WITH, VALUES or TABLE, please: {head(str(error), _WORDS_CHARS_MAX)}"
    return head(str(error), _WORDS_CHARS_MAX)


def _too_slow() -> str:
    return f"the statement took longer than {limits.FOREIGN_TIMEOUT_S:g} s: ask for less"


def _rows(columns: tuple[str, ...], found: Iterable[Sequence[object]]) -> Rows:
    """Keep as many rows as the limits allow."""
    rows: list[tuple[str | None, ...]] = []
    left = limits.FOREIGN_BYTES_MAX
    for row in found:
        cells = tuple(map(_cell, row))
        left -= sum(len(cell) for cell in cells if cell)
        if len(rows) == limits.FOREIGN_ROWS_MAX or left < 0:
            return Rows(columns, tuple(rows), is_cut=True)
        rows.append(cells)
    return Rows(columns, tuple(rows), is_cut=False)


def _cell(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(bytes(value))} bytes)"
    text = str(value)
    return text if len(text) <= limits.FOREIGN_CELL_CHARS_MAX else head(text, limits.FOREIGN_CELL_CHARS_MAX) + "…"
