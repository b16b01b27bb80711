"""Migrations: from nothing, twice, several at once, never backwards; and `tables.py` says the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable
from gateway.store import open_store
from gateway.store.engine import Connection, Database, open_database
from gateway.store.migrations import alembic_config, migrate
from gateway.store.tables import KNOWN_REVISIONS, OLD_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, metadata
from tests.contract.store_samples import ANN, talk
from tests.parts.databases import MakeUrl


def opened(url: str) -> Database:
    return open_database(url, busy_timeout_s=5.0)


def revisions() -> list[str]:
    """What the versions folder holds, oldest first."""
    script = ScriptDirectory(str(Path(sys.modules[migrate.__module__].__file__ or "").parent))
    return [step.revision for step in reversed(list(script.walk_revisions()))]


def test_the_code_knows_every_migration() -> None:
    """`check_schema` works without Alembic, from a constant."""
    assert tuple(revisions()) == KNOWN_REVISIONS


async def test_an_empty_database_becomes_ready(empty_database: MakeUrl) -> None:
    url = await empty_database()
    assert await migrate(url) == revisions()
    store = open_store(url)
    try:
        await store.check_schema()
        assert (await talk(store, ANN, "hello", number=1)).message_count == 2
    finally:
        await store.close()


async def test_migrating_again_does_nothing_and_keeps_everything(empty_database: MakeUrl) -> None:
    url = await empty_database()
    await migrate(url)
    store = open_store(url)
    try:
        session = await talk(store, ANN, "hello", number=1)
        assert await migrate(url) == []
        assert await store.sessions.by_id(session.id) == session
    finally:
        await store.close()


async def test_processes_that_migrate_at_once_apply_each_step_once(empty_database: MakeUrl) -> None:
    url = await empty_database()
    applied = await asyncio.gather(*(migrate(url) for _ in range(4)))
    assert sorted(applied) == [[], [], [], revisions()]


async def test_real_processes_that_migrate_at_once(empty_database: MakeUrl) -> None:
    url = await empty_database()
    program = f"import asyncio; from gateway.store.migrations import migrate; print(asyncio.run(migrate({url!r})))"
    runs = await asyncio.gather(
        *(asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE) for _ in range(2))
    )
    printed = [(await run.communicate())[0].decode().strip() for run in runs]
    assert sorted(printed) == sorted(["[]", str(revisions())])
    assert [run.returncode for run in runs] == [0, 0]


async def test_a_database_of_a_newer_trivet_is_left_alone(empty_database: MakeUrl) -> None:
    url = await empty_database()
    await migrate(url)
    database = opened(url)
    await database.write(_stamp("9999"))
    await database.close()
    store = open_store(url)
    try:
        with pytest.raises(SchemaMismatch, match=r"newer Trivet \(schema 9999"):
            await store.check_schema()
    finally:
        await store.close()
    with pytest.raises(SchemaMismatch, match="newer Trivet"):
        await migrate(url)


@pytest.mark.parametrize("revision", sorted(OLD_REVISIONS))
async def test_a_database_of_an_older_trivet_is_left_alone(empty_database: MakeUrl, revision: str) -> None:
    """It says what to do, and nothing of it is lost."""
    url = await empty_database()
    await migrate(url)
    store = open_store(url)
    session = await talk(store, ANN, "hello", number=1)
    database = opened(url)
    await database.write(_stamp(revision))
    try:
        with pytest.raises(SchemaMismatch, match=rf"older Trivet \(schema {revision}\).* run `trivet migrate`"):
            await store.check_schema()
        with pytest.raises(SchemaMismatch, match="move it away"):
            await migrate(url)
        await database.write(_stamp(SCHEMA_REVISION))
        assert await store.sessions.by_id(session.id) == session
    finally:
        await database.close()
        await store.close()


def tables(connection: Connection) -> list[str]:
    with connection.as_sqlalchemy() as lent:
        return inspect(lent).get_table_names()


def _stamp(revision: str) -> Callable[[Connection], object]:
    statement = text(f"UPDATE {VERSION_TABLE} SET version_num = :revision")
    return lambda connection: connection.execute(statement, {"revision": revision})


async def test_a_step_that_fails_leaves_nothing_behind(empty_database: MakeUrl) -> None:
    """A table of that name is in the way: the tables made before it are gone again."""
    url = await empty_database()
    database = opened(url)
    await database.write(lambda connection: connection.execute(text("CREATE TABLE todos (mine TEXT)")))
    try:
        with pytest.raises(StoreError, match="refused a statement"):
            await migrate(url)
        assert await database.read(tables) == ["todos"]
    finally:
        await database.close()


def _differences(connection: Connection) -> list[object]:
    """What `tables.py` says that the database does not, and the reverse; the full-text indexes are in neither."""
    options = {
        "include_name": lambda name, kind, parents: not (kind in {"table", "index"} and "s_index" in name),
        "version_table": VERSION_TABLE,
        "compare_type": True,
    }
    with connection.as_sqlalchemy() as lent:
        return list(compare_metadata(MigrationContext.configure(lent, opts=options), metadata))


async def test_a_new_database_is_what_tables_py_says(database_url: str) -> None:
    database = opened(database_url)
    try:
        assert await database.read(_differences) == []
    finally:
        await database.close()


_BACK_TO_V1 = (
    *(f"ALTER TABLE facts DROP COLUMN {name}" for name in ("uses", "former", "helps_with")),
    *(f"ALTER TABLE passages DROP COLUMN {name}" for name in ("vector", "vector_model")),
    "ALTER TABLE lanes DROP COLUMN is_voiced",
)


async def test_a_database_of_each_step_becomes_a_new_one(empty_database: MakeUrl) -> None:
    """And what was in it is still there."""
    url = await empty_database()
    await migrate(url)
    store, database = open_store(url), opened(url)
    session = await talk(store, ANN, "hello", number=1)

    def go_back(connection: Connection) -> None:
        for statement in _BACK_TO_V1:
            connection.exec_driver_sql(statement)
        _stamp("v1")(connection)

    try:
        before = await database.read(_conditions)
        await database.write(go_back)
        assert await migrate(url) == revisions()[1:]
        assert await database.read(_differences) == []
        assert await database.read(_conditions) == before
        assert await store.sessions.by_id(session.id) == session
    finally:
        await database.close()
        await store.close()


def _conditions(connection: Connection) -> set[str]:
    """What `tables.py` does not say, or nothing compares: triggers, full-text tables and the conditions of indexes."""
    kept = (
        "SELECT sql FROM sqlite_master WHERE type IN ('trigger', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
        if connection.dialect.name == "sqlite"
        else "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"
    )
    return {" ".join(str(row[0]).split()) for row in connection.exec_driver_sql(kept)}


async def test_a_partial_index_is_partial_on_both(database_url: str) -> None:
    indexes = [index for table in metadata.tables.values() for index in table.indexes]
    wanted = {index.name for index in indexes if index.dialect_options["sqlite"]["where"] is not None}
    database = opened(database_url)
    partial = [each for each in await database.read(_conditions) if each.startswith("CREATE INDEX") and "WHERE" in each]
    await database.close()
    assert {each.split()[2] for each in partial} == wanted


async def test_an_empty_file_becomes_what_a_migrated_one_is(tmp_path: Path, sqlite_url: str) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/new.db"
    first, second = open_store(url), open_store(url)
    try:
        assert sorted(await asyncio.gather(first.create_schema(), second.create_schema())) == [False, True]
        await first.check_schema()
        assert (await talk(first, ANN, "hello", number=1)).message_count == 2
        assert not await first.create_schema()
    finally:
        await first.close()
        await second.close()
    assert await migrate(url) == []


async def test_only_an_empty_sqlite_file_is_made_without_migrations(empty_database: MakeUrl) -> None:
    url = await empty_database()
    database, store = opened(url), open_store(url)
    await database.write(lambda connection: connection.execute(text("CREATE TABLE todos (mine TEXT)")))
    try:
        assert not await store.create_schema()
        assert await database.read(tables) == ["todos"]
    finally:
        await store.close()
        await database.close()


def test_every_column_says_what_it_is_for() -> None:
    assert [str(column) for table in metadata.tables.values() for column in table.columns if not column.doc] == []


async def test_bad_urls_and_absent_servers_are_one_sentence() -> None:
    with pytest.raises(ConfigError, match="database URL"):
        await migrate("nonsense")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await migrate("postgresql+asyncpg://a:b@127.0.0.1:1/c")


async def test_an_agent_on_sqlite_loads_nothing_of_alembic_the_orm_or_postgresql(sqlite_url: str) -> None:
    """Its start and its memory do not pay for them."""
    heavy = ("alembic", "asyncpg", "sqlalchemy.orm", "sqlalchemy.ext.asyncio", "sqlalchemy.dialects.postgresql")
    program = f"""
import asyncio, sys, agent.assembly
from gateway.store import open_store

async def check():
    store = open_store({sqlite_url!r})
    await store.check_schema()
    await store.installation()
    await store.close()

asyncio.run(check())
print([name for name in {heavy} if name in sys.modules])
"""
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    assert (await run.communicate())[0] == b"[]\n"


async def test_a_percent_sign_in_the_folder_is_no_syntax(tmp_path: Path) -> None:
    def options(connection: Connection) -> object:
        with connection.as_sqlalchemy() as lent:
            return alembic_config(lent).attributes["options"]

    url = f"sqlite+aiosqlite:///{tmp_path}/50%/trivet.db"
    assert await migrate(url) == revisions()
    database = opened(url)
    try:
        assert await database.read(options) == {}
    finally:
        await database.close()
