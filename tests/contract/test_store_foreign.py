"""Foreign databases are read and never written, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import psutil
import pytest
from sqlalchemy.engine import URL

from agent.tools.database import database_tools
from gateway.contracts.errors import ConfigError, QueryRefused
from gateway.limits import FOREIGN_BYTES_MAX, FOREIGN_PATTERN_BYTES_MAX, FOREIGN_ROWS_MAX
from gateway.store.foreign import Foreign
from tests.parts.crew import becomes
from tests.parts.databases import PostgresTestServer
from tests.parts.tooling import registry, run

TABLES = (
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, note TEXT)",
    "INSERT INTO people VALUES (1, 'Ann', NULL), (2, 'Bob | Co', 'x')",
)


@pytest.fixture
async def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "odd name?#%.db"
    connection = sqlite3.connect(path)
    for statement in TABLES:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
async def foreign(request: pytest.FixtureRequest, sqlite_file: Path, postgres_server: PostgresTestServer) -> Foreign:
    """The same two people on each kind, under the name `people`."""
    if request.param == "sqlite":
        return _sqlite(sqlite_file)
    name = await postgres_server.create_database()
    await postgres_server.execute(*TABLES, database=name)
    return Foreign({"people": postgres_server.url(name)})


def _sqlite(path: Path) -> Foreign:
    return Foreign({"people": URL.create("sqlite+aiosqlite", database=str(path)).render_as_string(hide_password=False)})


async def test_a_question_is_answered(foreign: Foreign) -> None:
    found = await foreign.ask("people", "SELECT id, name, note FROM people ORDER BY id")
    assert found.columns == ("id", "name", "note")
    assert found.rows == (("1", "Ann", None), ("2", "Bob | Co", "x"))
    assert not found.is_cut


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO people VALUES (3, 'Eve', '')",
        "DELETE FROM people",
        "DROP TABLE people",
        "WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
        "SELECT 1; DELETE FROM people",
        "COMMIT; DELETE FROM people",
        "/* SELECT */ UPDATE people SET name = 'Eve'",
        "EXPLAIN ANALYZE DELETE FROM people",
        "CREATE TEMP TABLE t (x int)",
        "SELECT * INTO other FROM people",
        "VACUUM",
        "",
        "-- SELECT",
    ],
)
async def test_nothing_can_be_written(foreign: Foreign, statement: str) -> None:
    with pytest.raises(QueryRefused):
        await foreign.ask("people", statement)
    assert len((await foreign.ask("people", "SELECT * FROM people WHERE name <> 'Eve'")).rows) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '/tmp/other.db' AS other",
        "PRAGMA writable_schema = ON",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('x')",
        "VACUUM INTO '/tmp/copy.db'",
        "BEGIN",
    ],
)
async def test_sqlite_lets_nobody_out_of_the_file(sqlite_file: Path, statement: str) -> None:
    with pytest.raises(QueryRefused):
        await _sqlite(sqlite_file).ask("people", statement)


@pytest.mark.parametrize(
    "statement",
    [
        "COPY people TO '/tmp/people.txt'",
        "COPY (SELECT 1) TO PROGRAM 'id > /tmp/owned'",
        "DO $$ BEGIN PERFORM 1; END $$",
        "SET TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "ROLLBACK",
        "LISTEN x",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('s')",
    ],
)
async def test_postgresql_is_left_as_it_is(postgres_server: PostgresTestServer, statement: str) -> None:
    name = await postgres_server.create_database()
    await postgres_server.execute(*TABLES, "CREATE SEQUENCE s", database=name)
    foreign = Foreign({"people": postgres_server.url(name)})
    with pytest.raises(QueryRefused):
        await foreign.ask("people", statement)


async def test_too_many_rows_and_too_large_ones_are_cut(foreign: Foreign) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n"
    found = await foreign.ask("people", numbers)
    assert found.is_cut
    assert len(found.rows) == FOREIGN_ROWS_MAX
    wide = (
        "WITH RECURSIVE n(i, t) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, t || t FROM n WHERE i < 15) SELECT t FROM n"
    )
    assert max(len(row[0] or "") for row in (await foreign.ask("people", wide)).rows) <= 2_001
    many = (
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT '{'y' * 2_000}' FROM n"
    )
    cut = await foreign.ask("people", many)
    assert cut.is_cut
    assert sum(len(row[0] or "") for row in cut.rows) <= FOREIGN_BYTES_MAX


async def test_a_slow_statement_is_ended(foreign: Foreign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.foreign.FOREIGN_TIMEOUT_S", 0.3)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(QueryRefused, match="took longer"):
        await foreign.ask("people", endless)


async def test_a_cancelled_question_ends_its_process(sqlite_file: Path) -> None:
    """None may go on counting for nobody."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    asked = asyncio.create_task(_sqlite(sqlite_file).ask("people", endless))
    before = {child.pid for child in psutil.Process().children()}

    async def readers() -> int:
        return len([child for child in psutil.Process().children() if child.pid not in before])

    await becomes(readers, 1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await becomes(readers, 0)


@pytest.mark.parametrize(
    "never_looks_up",
    [
        "SELECT instr(zeroblob(4000000), zeroblob(2000000) || x'01')",
        "SELECT length(replace(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1', ''))",
    ],
)
async def test_a_function_that_hears_no_interrupt_is_ended_all_the_same(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch, never_looks_up: str
) -> None:
    monkeypatch.setattr("gateway.store.foreign.FOREIGN_TIMEOUT_S", 0.5)
    with pytest.raises(QueryRefused, match="took longer"):
        await asyncio.wait_for(_sqlite(sqlite_file).ask("people", never_looks_up), 10)


async def test_an_error_is_told_in_the_databases_words_without_its_place(foreign: Foreign, tmp_path: Path) -> None:
    with pytest.raises(QueryRefused) as told:
        await foreign.ask("people", "SELECT x FROM nowhere")
    assert "nowhere" in str(told.value)
    assert str(tmp_path) not in str(told.value)


async def test_a_database_that_is_not_there_is_an_error_without_its_place(tmp_path: Path) -> None:
    urls = {
        "file": f"sqlite+aiosqlite:///{tmp_path}/none.db",
        "server": f"postgresql+asyncpg://me:hunter2hunter2@/none?host={tmp_path}",
    }
    for name in urls:
        with pytest.raises(QueryRefused) as told:
            await Foreign(urls).ask(name, "SELECT 1")
        assert str(told.value) in {"the database cannot be opened", "the database cannot be reached"}
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "url",
    ["nonsense", "mysql://x/y", "sqlite+aiosqlite://", "sqlite+aiosqlite:///x?mode=rwc", "postgresql+asyncpg://h"],
)
def test_a_wrong_url_is_a_configuration_error_that_names_the_database(url: str) -> None:
    with pytest.raises(ConfigError, match="shop"):
        Foreign({"shop": url})


async def test_the_tool_shows_a_table(sqlite_file: Path) -> None:
    tools, absent = database_tools(_sqlite(sqlite_file))
    assert not absent
    result = await run(registry(*tools), "db_query", database="people", statement="SELECT * FROM people")
    assert (
        "| id | name | note |\n| --- | --- | --- |\n| 1 | Ann | NULL |\n| 2 | Bob \\| Co | x |\n\n(2 rows)"
        in result.text
    )
    wrong = await run(registry(*tools), "db_query", database="people", statement="DELETE FROM people")
    assert wrong.is_error
    assert "only reading is allowed" in wrong.text


async def test_without_databases_the_tool_is_off_and_says_so() -> None:
    tools, absent = database_tools(Foreign({}))
    assert not tools
    assert [tool.reason for tool in absent] == ["no database is configured"]


async def test_a_pattern_that_one_comparison_would_take_minutes_for_is_refused(sqlite_file: Path) -> None:
    pattern = "%" + "_" * FOREIGN_PATTERN_BYTES_MAX + "b"
    with pytest.raises(QueryRefused, match="pattern too complex"):
        await _sqlite(sqlite_file).ask("people", f"SELECT hex(zeroblob(100)) LIKE '{pattern}'")
