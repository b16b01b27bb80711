"""What goes wrong with databases, and the one sentence it becomes."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from traceback import format_exception

import pytest
from sqlalchemy import select

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TrivetError
from gateway.store import open_store, postgres
from gateway.store.engine import Connection, open_database
from gateway.store.migrations import migrate
from gateway.store.tables import entries, lanes
from gateway.store.transcript import from_entry
from tests.contract.store_samples import ANN, answer, begin, outcome, says
from tests.parts.databases import MakeUrl, PostgresTestServer
from tests.parts.waiting import PATIENCE_S

PASSWORD = "correct-horse-battery"


def path_of(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(url.partition(":///")[2])


async def complaint(url: str, *, busy_timeout_s: float = 5.0) -> TrivetError:
    """What the store says when it is asked whether it can work."""

    async def check() -> None:
        store = open_store(url, busy_timeout_s=busy_timeout_s)
        try:
            await store.check_schema()
        finally:
            await store.close()

    with pytest.raises(TrivetError) as caught:
        await check()
    assert "\n" not in str(caught.value)
    return caught.value


# --- URLs


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "sqlite+aiosqlite:///"),
        ("what is this", "sqlite+aiosqlite:///"),
        (f"postgres://trivet:{PASSWORD}@db/trivet", "postgresql+asyncpg://"),
        (f"postgresql://trivet:{PASSWORD}@db/trivet", "postgresql+asyncpg://"),
        (f"mysql+aiomysql://trivet:{PASSWORD}@db/trivet", "postgresql+asyncpg://"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db:port/trivet", "postgresql+asyncpg://"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@127.0.0.1:65536/trivet", "postgresql+asyncpg://"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db..local/trivet", "postgresql+asyncpg://"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db/trivet?prepared_statement_cache_size=none", "no number"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db", "names no database"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db/trivet?sslmode=require", "?ssl=require"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db/trivet?ssl=perhaps", "gives an option"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@/trivet?host=db1&host=db2", "hosts and ports"),
        (f"postgresql+asyncpg://trivet:{PASSWORD}@db/trivet?port=any", "hosts and ports"),
        ("sqlite+aiosqlite://", "names no database"),
        ("sqlite+aiosqlite:///:memory:", "plain SQLite file"),
        ("sqlite+aiosqlite:///file:x?mode=memory&uri=true", "plain SQLite file"),
    ],
)
async def test_a_url_we_cannot_use_names_one_we_can(url: str, hint: str) -> None:
    error = await complaint(url)
    assert isinstance(error, ConfigError)
    assert hint in str(error)
    assert PASSWORD not in str(error)


# --- SQLite


async def test_a_new_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "trivet.db"
    await complaint(f"sqlite+aiosqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    error = await complaint(f"sqlite+aiosqlite:///{tmp_path}/file/trivet.db")
    assert isinstance(error, ConfigError)
    assert "data_dir" in str(error)


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "trivet.db").write_bytes(b"Dear diary, " * 1_000)
    error = await complaint(f"sqlite+aiosqlite:///{tmp_path}/trivet.db")
    assert isinstance(error, ConfigError)
    assert "is not an SQLite database" in str(error)


async def test_a_folder_where_the_file_should_be(tmp_path: Path) -> None:
    error = await complaint(f"sqlite+aiosqlite:///{tmp_path}")
    assert isinstance(error, ConfigError)
    assert str(tmp_path) in str(error)


async def test_a_file_that_is_away_for_a_time(tmp_path: Path) -> None:
    """As on a disk that is mounted anew, or without a descriptor left: what has begun waits for the end of it."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    database = open_database(f"sqlite+aiosqlite:///{folder}/trivet.db", busy_timeout_s=5.0)

    async def ask() -> None:
        await database.read(lambda connection: connection.exec_driver_sql("SELECT 1").all())

    try:
        await database.write(lambda connection: connection.exec_driver_sql("CREATE TABLE diary (day)"))
        folder.rename(elsewhere)
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await ask()
        elsewhere.rename(folder)
        await ask()
    finally:
        await database.close()


async def test_a_locked_file_is_unavailable_and_then_available_again(sqlite_url: str) -> None:
    store = open_store(sqlite_url, busy_timeout_s=0.05)
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="is locked by another process"):
            await store.turns.commit(outcome(start, "t1", messages))
        assert len(await store.transcript.view(start.session.id)) == 1  # readers never wait for a writer
        other.execute("ROLLBACK")
        session = (await store.turns.commit(outcome(start, "t1", messages))).session
        assert session.message_count == 2
    finally:
        other.close()
        await store.close()


async def test_a_writer_waits_for_another_process(sqlite_url: str) -> None:
    store = open_store(sqlite_url)
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(begin(store, "t1", [says(ANN, "hello", id_="m1")]))
        await store.sessions.page()
        assert not waiting.done()
        other.execute("ROLLBACK")
        assert (await waiting).fresh_ids == {"m1"}
    finally:
        other.close()
        await store.close()


async def test_a_file_locked_for_good_is_unavailable(tmp_path: Path) -> None:
    """Somebody holds a file that is not in WAL mode exclusively, so not even reading works."""
    path = tmp_path / "trivet.db"
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        error = await complaint(f"sqlite+aiosqlite:///{path}", busy_timeout_s=0.05)
        assert isinstance(error, StoreUnavailable)
    finally:
        other.close()


async def test_two_stores_open_one_new_file_at_once(tmp_path: Path) -> None:
    """SQLite refuses one of two that switch to WAL at once; we ask again."""
    url = f"sqlite+aiosqlite:///{tmp_path}/new.db"
    errors = await asyncio.gather(*(complaint(url) for _ in range(8)))
    assert {type(error) for error in errors} == {SchemaMismatch}


async def test_the_file_is_in_wal_mode(sqlite_url: str) -> None:
    store = open_store(sqlite_url)
    await store.check_schema()
    await store.close()
    other = sqlite3.connect(path_of(sqlite_url))
    try:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        other.close()


# --- PostgreSQL


async def test_a_server_that_is_not_there() -> None:
    error = await complaint(f"postgresql+asyncpg://trivet:{PASSWORD}@127.0.0.1:1/trivet")
    assert isinstance(error, StoreUnavailable)
    assert "127.0.0.1:1" in str(error)
    assert PASSWORD not in str(error)


async def test_an_option_that_nobody_knows(postgres_server: PostgresTestServer) -> None:
    error = await complaint(postgres_server.url("postgres") + "&pool=9")
    assert isinstance(error, ConfigError)
    assert "`pool`" in str(error)


@pytest.mark.parametrize(("option", "are_kept"), [("", True), ("&prepared_statement_cache_size=0", False)])
async def test_statements_are_kept_unless_the_url_says_so(postgres_url: str, option: str, are_kept: bool) -> None:
    """A pooler that gives each transaction another connection would not find them again."""
    database = open_database(postgres_url + option, busy_timeout_s=5.0)

    def kept(connection: Connection) -> bool:
        connection.execute(select(lanes)).all()
        return bool(connection.exec_driver_sql("SELECT name FROM pg_prepared_statements").all())

    try:
        assert await database.write(kept) is are_kept
    finally:
        await database.close()


async def test_a_host_that_has_no_address() -> None:
    error = await complaint(f"postgresql+asyncpg://trivet:{PASSWORD}@no-such-host.invalid/trivet")
    assert isinstance(error, StoreUnavailable)
    assert PASSWORD not in str(error)


async def test_a_database_that_is_not_there(postgres_server: PostgresTestServer) -> None:
    error = await complaint(postgres_server.url("nowhere"))
    assert isinstance(error, ConfigError)
    assert "create it" in str(error)


async def test_a_user_who_may_not_come_in(postgres_server: PostgresTestServer) -> None:
    """`nobody` has no role on the server."""
    url = postgres_server.url("postgres").replace("//postgres@", f"//nobody:{PASSWORD}@")
    error = await complaint(url)
    assert isinstance(error, ConfigError)
    assert "user or the password" in str(error)
    assert PASSWORD not in str(error)


async def test_a_user_who_is_kept_out_for_a_time(postgres_server: PostgresTestServer) -> None:
    """As while an operator changes passwords: what runs waits for the end of it; it does not stop the gateway."""
    await postgres_server.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    url = postgres_server.url("postgres").replace("//postgres@", "//guest@")
    database = open_database(url, busy_timeout_s=5.0)

    async def ask() -> None:
        await database.read(lambda connection: connection.exec_driver_sql("SELECT 1").all())

    try:
        await ask()
        await postgres_server.execute(
            "ALTER ROLE guest NOLOGIN", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'"
        )
        with suppress(StoreUnavailable):  # a connection that was cut is noticed by whoever uses it next
            await ask()
        with pytest.raises(StoreUnavailable, match="user or the password"):
            await ask()
        await postgres_server.execute("ALTER ROLE guest LOGIN")
        await ask()
    finally:
        await database.close()


async def test_a_user_who_may_not_read_the_tables(postgres_server: PostgresTestServer, postgres_url: str) -> None:
    await postgres_server.execute("DROP ROLE IF EXISTS visitor", "CREATE ROLE visitor LOGIN")
    error = await complaint(postgres_url.replace("//postgres@", "//visitor@"))
    assert isinstance(error, ConfigError)
    assert "grant the rights" in str(error)


async def test_no_server_of_the_kind_that_the_url_asks_for(postgres_url: str) -> None:
    """As while a standby becomes the primary: the next try may find it."""
    error = await complaint(f"{postgres_url}&target_session_attrs=standby")
    assert isinstance(error, StoreUnavailable)


async def test_a_server_that_takes_no_writes_may_take_them_later(postgres_server: PostgresTestServer) -> None:
    """As one that is a standby since the last look."""
    database = await postgres_server.create_database()
    await migrate(postgres_server.url(database))
    await postgres_server.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    store = open_store(postgres_server.url(database))
    try:
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            await begin(store, "t1", [says(ANN, "hello", id_="m1")])
    finally:
        await store.close()


@pytest.mark.parametrize("wrong", [{"seq": "my diary"}, {"role": None}])
async def test_a_refused_value_is_not_told(postgres_url: str, wrong: dict[str, object]) -> None:
    """The driver says which value has a wrong type, the server shows a row that lacks one."""
    database = open_database(postgres_url, busy_timeout_s=5.0)
    row = from_entry(answer("my diary"), session_id="s1") | wrong
    try:
        with pytest.raises(StoreError) as caught:
            await database.write(lambda connection: connection.execute(entries.insert(), row))
    finally:
        await database.close()
    assert "diary" not in "".join(format_exception(caught.value))


async def test_connections_cut_by_the_server_cost_one_retry_at_most(
    postgres_server: PostgresTestServer, postgres_database: str, postgres_url: str
) -> None:
    """A restart of PostgreSQL: what has been noticed is connected anew, else one call fails as retryable."""
    store = open_store(postgres_url)
    try:
        await store.check_schema()
        await postgres_server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{postgres_database}'"
        )
        with suppress(StoreUnavailable):
            await store.sessions.page()
        assert await store.sessions.page() == []
    finally:
        await store.close()


async def test_tables_that_change_under_a_prepared_statement_cost_one_retry(
    postgres_server: PostgresTestServer,
) -> None:
    """As when a newer Trivet migrates while an older one still works."""
    name = await postgres_server.create_database()
    await migrate(url := postgres_server.url(name))
    database, other = open_database(url, busy_timeout_s=5.0), await postgres_server.connect(name)
    whole = select(lanes)
    try:
        await database.write(lambda connection: connection.execute(whole).all())
        await other.execute("ALTER TABLE lanes ALTER COLUMN fence TYPE numeric")
        with pytest.raises(StoreUnavailable, match="tables changed"):
            await database.write(lambda connection: connection.execute(whole).all())
        assert await database.write(lambda connection: connection.execute(whole).all()) == []
    finally:
        await other.close()
        await database.close()


async def test_a_lane_held_too_long_is_unavailable(postgres_server: PostgresTestServer) -> None:
    """The server gives up waiting for a row: the turn is retried, nothing of it stays."""
    database = await postgres_server.create_database()
    await migrate(postgres_server.url(database))
    store = open_store(postgres_server.url(database))
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.close()
    await postgres_server.execute(f"ALTER DATABASE \"{database}\" SET lock_timeout = '50ms'")
    holder = await postgres_server.connect(database)
    try:
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM lanes FOR UPDATE")
            with pytest.raises(StoreUnavailable, match="is locked"):
                await store.turns.commit(outcome(start, "t1", messages))
        assert (await store.turns.commit(outcome(start, "t1", messages))).session.message_count == 2
    finally:
        await holder.close()
        await store.close()


# --- both


async def test_a_database_that_was_never_migrated(empty_database: MakeUrl) -> None:
    error = await complaint(await empty_database())
    assert isinstance(error, SchemaMismatch)
    assert "trivet migrate" in str(error)


async def test_work_on_a_database_that_was_never_migrated(empty_database: MakeUrl) -> None:
    store = open_store(await empty_database())
    try:
        for call in (store.sessions.page(), begin(store, "t1", [says(ANN, "hello", id_="m1")])):
            with pytest.raises(SchemaMismatch, match="trivet migrate"):
                await call
    finally:
        await store.close()


async def test_a_row_without_its_parent_is_refused(database_url: str) -> None:
    """SQLite checks references only where it is told to, on every connection anew."""
    database = open_database(database_url, busy_timeout_s=5.0)
    orphan = from_entry(answer("whose?"), session_id="nobody's")
    try:
        with pytest.raises(StoreError):
            await database.write(lambda connection: connection.execute(entries.insert(), orphan))
    finally:
        await database.close()


async def test_a_defect_names_no_text(database_url: str) -> None:
    """The message of an error reaches the log: what people said must not."""
    store = open_store(database_url)
    messages = [says(ANN, "my diary", id_="m1")]
    try:
        start = await begin(store, "t1", messages)
        done = outcome(start, "t1", messages, text="dear diary")
        twice = [replace(entry, message_id="m2") for entry in (*done.entries, *done.entries)]
        with pytest.raises(StoreError) as caught:
            await store.turns.commit(replace(done, entries=tuple(twice)))
        chain = [caught.value, caught.value.__cause__]
        assert all("diary" not in str(error) for error in chain)
    finally:
        await store.close()


async def test_a_process_that_stands_still_within_a_statement_keeps_no_lane(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prepared statement goes out in two halves. Between them the session is not idle in its transaction, so that the
    bound for this does not end it; on a machine that was lost it held its locks for hours."""
    lost, other = open_database(postgres_url, busy_timeout_s=5.0), open_store(postgres_url)
    assert isinstance(lost, postgres.PostgresDatabase)
    try:
        await begin(other, "t1", [says(ANN, "hello", id_="m1")])
        monkeypatch.setattr(postgres, "STORE_TRANSACTION_MAX_S", 1.0)  # of connections that are opened from now on
        async with lost.connection() as driver:
            await driver.execute("BEGIN")
            await driver.execute("UPDATE lanes SET fence = fence")
            await driver.prepare("SELECT * FROM lanes WHERE key = $1")
            async with asyncio.timeout(PATIENCE_S):
                await begin(other, "t2", [says(ANN, "still there?", id_="m2")], fence=2)
    finally:
        await lost.close()
        await other.close()
