"""Foreign databases are read and never written, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tracemalloc
from pathlib import Path

import psutil
import pytest
from sqlalchemy.engine import URL

from agent.tools.toolbox import database_tools
from gateway.config import load_settings
from gateway.contracts.errors import ConfigError, QueryRefused
from gateway.limits import FOREIGN_BYTES_MAX, FOREIGN_PATTERN_BYTES_MAX, FOREIGN_ROWS_MAX
from gateway.ops.doctor import CheckState
from gateway.ops.doctor.checks import check_foreign
from gateway.store.foreign import ForeignDatabases
from tests.parts.databases import PostgresTestServer
from tests.parts.subtasks import becomes
from tests.parts.tooling import registry, run
from tests.parts.waiting import PATIENCE_S

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
async def foreign(
    request: pytest.FixtureRequest, sqlite_file: Path, postgres_server: PostgresTestServer
) -> ForeignDatabases:
    """The same two people on each kind, under the name `people`."""
    if request.param == "sqlite":
        return _sqlite(sqlite_file)
    name = await postgres_server.create_database()
    await postgres_server.execute(*TABLES, database=name)
    return ForeignDatabases({"people": await postgres_server.reader_url(name)})


def _sqlite(path: Path) -> ForeignDatabases:
    return ForeignDatabases(
        {"people": URL.create("sqlite+aiosqlite", database=str(path)).render_as_string(hide_password=False)}
    )


async def test_a_question_is_answered(foreign: ForeignDatabases) -> None:
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
async def test_nothing_can_be_written(foreign: ForeignDatabases, statement: str) -> None:
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


@pytest.fixture
async def shop(postgres_server: PostgresTestServer) -> str:
    """A database on a server, with the two people and a sequence."""
    name = await postgres_server.create_database()
    await postgres_server.execute(*TABLES, "CREATE SEQUENCE s", database=name)
    return name


ATTACKS = (
    "COPY people TO '/tmp/people.txt'",
    "/* /* */ SELECT */ COPY (SELECT 1) TO PROGRAM 'id > /tmp/owned'",
    "/* /* */ SELECT */ DO $$ BEGIN PERFORM 1; END $$",
    "/* /* */ SELECT */ LOCK TABLE people IN ACCESS SHARE MODE",
    "-- \rSELECT\nCOPY people TO '/tmp/people.txt'",
    "SELECT 1) AS asked; DELETE FROM people; SELECT (1",
    "SELECT 1; COMMIT; BEGIN",
    "SELECT 1 FROM people FOR UPDATE",
    "SET TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "ROLLBACK",
    "LISTEN x",
    "CALL nobody()",
    "FETCH 1 FROM asked",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT nextval('s')",
    "SELECT setval('s', 9)",
    "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/people.txt')",
    "SELECT pg_read_file('/etc/hostname')",
    "SELECT pg_reload_conf()",
    "SELECT pg_create_physical_replication_slot('s')",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT query_to_xml('COPY people TO PROGRAM ''id''', true, true, '')",
    "SELECT query_to_xml('DELETE FROM people', true, true, '')",
)


async def test_postgresql_is_left_as_it_is(postgres_server: PostgresTestServer, shop: str) -> None:
    foreign = ForeignDatabases({"people": await postgres_server.reader_url(shop, "GRANT ALL ON people, s TO {reader}")})
    for statement in ATTACKS:
        with pytest.raises(QueryRefused):
            pytest.fail(f"{statement!r} gave {await foreign.ask('people', statement)}")
    assert len((await foreign.ask("people", "SELECT * FROM people")).rows) == 2


async def test_a_statement_with_parameters_is_told_what_is_wrong_with_it(
    postgres_server: PostgresTestServer, shop: str
) -> None:
    """Not that the database is away."""
    foreign = ForeignDatabases({"shop": await postgres_server.reader_url(shop)})
    with pytest.raises(QueryRefused, match=r"no parameters such as \$1"):
        await foreign.ask("shop", "SELECT name FROM people WHERE id = $1::int")


RIGHTS = (
    ("ALTER ROLE {reader} SUPERUSER", "as "),
    ("ALTER ROLE {reader} REPLICATION", "as reader_"),
    ("GRANT pg_execute_server_program TO {reader}", "as pg_execute_server_program"),
    ("GRANT pg_read_server_files TO {reader} WITH INHERIT FALSE", "as pg_read_server_files"),
    ("GRANT pg_signal_backend TO {reader}", "as pg_signal_backend"),
    ("GRANT postgres TO {reader}", "as "),
    ("GRANT EXECUTE ON FUNCTION lo_export TO {reader}", "by lo_export"),
    ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO {reader}", "by pg_read_file"),
    ("CREATE EXTENSION dblink", "by dblink"),
)


async def test_a_user_who_may_do_more_than_read_is_refused(postgres_server: PostgresTestServer, shop: str) -> None:
    """At the start in words for the operator, and again before each question: rights change."""
    for right, named in RIGHTS:
        foreign = ForeignDatabases({"shop": await postgres_server.reader_url(shop, right)})
        with pytest.raises(ConfigError, match=rf"'shop'.*more than read \({named}"):
            await foreign.check()
        with pytest.raises(QueryRefused, match="may do more than read"):
            await foreign.ask("shop", "SELECT 1")


async def test_the_doctor_names_the_user_who_may_do_more(postgres_server: PostgresTestServer, shop: str) -> None:
    urls = [await postgres_server.reader_url(shop), postgres_server.url(shop)]
    lines = [f"{name}={url}" for name, url in zip(("reader", "root"), urls, strict=True)]
    settings = load_settings(None, {"TRIVET_TOOLS__DATABASES": json.dumps(lines)}).settings
    reader, root = await check_foreign(settings)
    assert reader.state is CheckState.OK
    assert root.state is CheckState.WRONG
    assert "give Trivet one that may only read" in root.remedy


async def test_a_user_who_reads_and_watches_the_server_is_taken(postgres_server: PostgresTestServer, shop: str) -> None:
    foreign = ForeignDatabases({"shop": await postgres_server.reader_url(shop, "GRANT pg_monitor TO {reader}")})
    await foreign.check()
    assert (await foreign.ask("shop", "TABLE people;")).columns == ("id", "name", "note")


async def test_a_server_that_is_away_does_not_keep_the_agent_from_starting(tmp_path: Path) -> None:
    await ForeignDatabases({"shop": f"postgresql+asyncpg://me@/none?host={tmp_path}"}).check()


async def test_nothing_of_a_question_is_left_on_the_server(
    postgres_server: PostgresTestServer, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a read-only transaction allows lasts no longer than the question, whatever it says about its own limits."""
    monkeypatch.setattr("gateway.limits.FOREIGN_TIMEOUT_S", 0.5)
    foreign = ForeignDatabases({"shop": await postgres_server.reader_url(shop)})
    with pytest.raises(QueryRefused, match="took longer"):
        await foreign.ask(
            "shop",
            "SELECT set_config('statement_timeout', '0', false) UNION ALL SELECT pg_advisory_lock(7)::text "
            "UNION ALL SELECT count(*)::text FROM generate_series(1, 10000000000)",
        )
    [(left,), (locked,)] = await _counted(
        postgres_server,
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{shop}' AND usename LIKE 'reader%'",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7",
    )
    assert (left, locked) == (0, 0)


async def _counted(server: PostgresTestServer, *statements: str) -> list[tuple[int, ...]]:
    connection = await server.connect("postgres")
    try:
        return [tuple(await connection.fetchrow(statement)) for statement in statements]
    finally:
        await connection.close()


async def test_the_server_sends_no_more_of_a_cell_than_is_shown(postgres_server: PostgresTestServer, shop: str) -> None:
    """22 million characters would have been held several times over."""
    foreign = ForeignDatabases({"shop": await postgres_server.reader_url(shop)})
    tracemalloc.start()
    try:
        found = await foreign.ask("shop", "SELECT repeat('many words ', 2000000), '\\x00ff'::bytea, 1 AS n, 2 AS n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [(long, data, *_)] = found.rows
    assert 1_900 < len(long or "") <= 2_001
    assert data == "(2 bytes)"
    assert found.columns == ("repeat", "bytea", "n", "n")
    assert peak < 5_000_000


async def test_too_many_rows_and_too_large_ones_are_cut(foreign: ForeignDatabases) -> None:
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


async def test_a_slow_statement_is_ended(foreign: ForeignDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.limits.FOREIGN_TIMEOUT_S", 0.3)
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
    monkeypatch.setattr("gateway.limits.FOREIGN_TIMEOUT_S", 0.5)
    with pytest.raises(QueryRefused, match="took longer"):
        await asyncio.wait_for(_sqlite(sqlite_file).ask("people", never_looks_up), PATIENCE_S)


async def test_an_error_is_told_in_the_databases_words_without_its_place(
    foreign: ForeignDatabases, tmp_path: Path
) -> None:
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
            await ForeignDatabases(urls).ask(name, "SELECT 1")
        assert str(told.value) in {"the database cannot be opened", "the database cannot be reached"}
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://x/y",
        "sqlite+aiosqlite://",
        "sqlite+aiosqlite:///x?mode=rwc",
        "postgresql+asyncpg://h",
        "postgresql+asyncpg://h/d?sslmod=require",
    ],
)
def test_a_wrong_url_is_a_configuration_error_that_names_the_database(url: str) -> None:
    with pytest.raises(ConfigError, match="shop"):
        ForeignDatabases({"shop": url})


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
    tools, absent = database_tools(ForeignDatabases({}))
    assert not tools
    assert [tool.reason for tool in absent] == ["no database is configured"]


async def test_a_pattern_that_one_comparison_would_take_minutes_for_is_refused(sqlite_file: Path) -> None:
    pattern = "%" + "_" * FOREIGN_PATTERN_BYTES_MAX + "b"
    with pytest.raises(QueryRefused, match="pattern too complex"):
        await _sqlite(sqlite_file).ask("people", f"SELECT hex(zeroblob(100)) LIKE '{pattern}'")
