"""Databases of the operator's, read and never written: what `db_query` asks.

Three locks each. SQLite: those of `gateway.store.sqlite_reader`. PostgreSQL: a read-only transaction, one statement by
the extended protocol, and only statements that begin like a question; COPY, which can reach files, is none. A
function that writes where no transaction sees it is beyond us: give Trivet a database user that may only read.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from gateway.contracts.errors import ConfigError, QueryRefused
from gateway.contracts.ports import Rows
from gateway.limits import (
    FOREIGN_BYTES_MAX,
    FOREIGN_CELL_CHARS_MAX,
    FOREIGN_MEMORY_BYTES,
    FOREIGN_PATTERN_BYTES_MAX,
    FOREIGN_ROWS_MAX,
    FOREIGN_STATEMENT_CHARS_MAX,
    FOREIGN_TIMEOUT_S,
    STORE_CONNECT_TIMEOUT_S,
)
from gateway.scrub.cutting import head
from gateway.store import sqlite_reader

_FORMS: Final = "`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://user:password@host/name`"
_COMMENT: Final = re.compile(r"--[^\n]*\n?|/\*.*?\*/", re.DOTALL)
_FIRST_WORD: Final = re.compile(r"[\s(]*([A-Za-z]+)")
_QUESTIONS: Final = frozenset({"select", "with", "values", "table", "show", "explain"})
_WORDS_CHARS_MAX: Final = 300


class _Database(Protocol):
    async def ask(self, statement: str) -> Rows: ...


class Foreign:
    """`gateway.contracts.ports.ForeignDatabases` over the configured URLs. Connects for each question."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        """Raises `ConfigError` for a URL that names no database we can read."""
        self._databases = {name: _database(name, url) for name, url in urls.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """How the databases are called."""
        return tuple(self._databases)

    async def ask(self, name: str, statement: str) -> Rows:
        """Run one reading statement. Raises `QueryRefused`."""
        database = self._databases.get(name)
        if database is None:
            raise QueryRefused(f"there is no database {name[:64]!r}; there are: {', '.join(self.names)}")
        if len(statement) > FOREIGN_STATEMENT_CHARS_MAX or "\0" in statement:
            raise QueryRefused(f"a statement is text of at most {FOREIGN_STATEMENT_CHARS_MAX} characters")
        _check_question(statement)
        return await database.ask(statement)


def _database(name: str, text: str) -> _Database:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"the URL of the database {name!r} in tools.databases is none: write {_FORMS}") from None
    if url.drivername == "sqlite+aiosqlite" and url.database and not url.query:
        return _Sqlite(url.database)
    if url.drivername == "postgresql+asyncpg" and url.database and "sslmode" not in url.query:
        return _Postgres(url)
    raise ConfigError(f"the URL of the database {name!r} in tools.databases is not of a kind we read: write {_FORMS}")


class _Sqlite:
    """A file. Each question has a process of its own, which is killed when it takes too long."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def ask(self, statement: str) -> Rows:
        asked = {
            "path": self._path,
            "statement": statement,
            "rows_max": FOREIGN_ROWS_MAX,
            "bytes_max": FOREIGN_BYTES_MAX,
            "cell_chars": FOREIGN_CELL_CHARS_MAX,
            "pattern_bytes": FOREIGN_PATTERN_BYTES_MAX,
            "memory_bytes": FOREIGN_MEMORY_BYTES,
            "cpu_s": math.ceil(FOREIGN_TIMEOUT_S) + 1,
        }
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-I", sqlite_reader.__file__, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
        )
        try:
            async with asyncio.timeout(FOREIGN_TIMEOUT_S):
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
    """A server. Each question has a connection of its own, in a transaction that cannot write."""

    def __init__(self, url: URL) -> None:
        self._engine = create_async_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={
                "timeout": STORE_CONNECT_TIMEOUT_S,
                "command_timeout": FOREIGN_TIMEOUT_S,
                "server_settings": {
                    "default_transaction_read_only": "on",
                    "statement_timeout": str(int(FOREIGN_TIMEOUT_S * 1000)),
                    "idle_in_transaction_session_timeout": str(int(2 * FOREIGN_TIMEOUT_S * 1000)),
                },
            },
        )

    async def ask(self, statement: str) -> Rows:
        try:
            async with asyncio.timeout(FOREIGN_TIMEOUT_S), self._engine.connect() as connection:
                reading = await connection.execution_options(postgresql_readonly=True)
                return await reading.run_sync(_ask_server, statement)
        except TimeoutError as error:
            raise QueryRefused(_too_slow()) from error
        except DBAPIError as error:
            raise QueryRefused(_server_words(error.orig)) from error
        except asyncpg.PostgresError as error:  # at the first row, past SQLAlchemy's translation
            raise QueryRefused(_server_words(error)) from error
        except (SQLAlchemyError, OSError) as error:
            raise QueryRefused("the database cannot be reached") from error


def _ask_server(connection: Connection, statement: str) -> Rows:
    """Through a server-side cursor: what is not wanted is not sent."""
    with connection.execution_options(stream_results=True, max_row_buffer=100).exec_driver_sql(statement) as found:
        if not found.returns_rows:
            return Rows((), (), is_cut=False)
        return _rows(tuple(found.keys()), found)


def _check_question(statement: str) -> None:
    """Raises `QueryRefused` unless the statement begins like a question: in a read-only transaction COPY may
    still write files and DO may still do things."""
    first = _FIRST_WORD.match(_COMMENT.sub(" ", statement))
    if first is None or first[1].lower() not in _QUESTIONS:
        raise QueryRefused("only reading is allowed here: SELECT, WITH, VALUES, TABLE, SHOW, EXPLAIN")


def _server_words(error: BaseException | None) -> str:
    cause = getattr(error, "__cause__", None) or error
    state = str(getattr(cause, "sqlstate", None) or "")
    if state == "57014":
        return _too_slow()
    if state == "25006":
        return "only reading is allowed here"
    if not state or state[:2] in ("08", "28", "3D", "53", "57"):
        return "the database cannot be reached"
    return head(str(cause), _WORDS_CHARS_MAX)


def _too_slow() -> str:
    return f"the statement took longer than {FOREIGN_TIMEOUT_S:g} s: ask for less"


def _rows(columns: tuple[str, ...], found: Iterable[Sequence[object]]) -> Rows:
    """As many rows as the limits allow."""
    rows: list[tuple[str | None, ...]] = []
    left = FOREIGN_BYTES_MAX
    for row in found:
        cells = tuple(map(_cell, row))
        left -= sum(len(cell) for cell in cells if cell)
        if len(rows) == FOREIGN_ROWS_MAX or left < 0:
            return Rows(columns, tuple(rows), is_cut=True)
        rows.append(cells)
    return Rows(columns, tuple(rows), is_cut=False)


def _cell(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(bytes(value))} bytes)"
    text = str(value)
    return text if len(text) <= FOREIGN_CELL_CHARS_MAX else head(text, FOREIGN_CELL_CHARS_MAX) + "…"
