"""A process that is paused in the middle of a transaction holds up nobody else for long. On PostgreSQL: a SQLite file
belongs to one machine."""

from __future__ import annotations

import asyncio
import time

import pytest
from sqlalchemy import text

from gateway.contracts.errors import StoreUnavailable
from gateway.store.engine import Connection, open_database
from tests.parts.postgres_server import postgres_of_its_own
from tests.parts.waiting import until_found


@pytest.mark.long
async def test_a_transaction_that_stands_still_is_ended_and_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.postgres.STORE_STANDSTILL_S", 0.2)

    def paused(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        time.sleep(1)  # as a stopped process would
        connection.execute(text("SELECT 1"))

    async with postgres_of_its_own() as server:
        database = open_database(f"postgresql+asyncpg://postgres@/postgres?host={server.socket_dir}", busy_timeout_s=5)
        with pytest.raises(StoreUnavailable):
            await database.write(paused)
        assert await database.write(lambda connection: connection.execute(text("SELECT 2")).scalar_one()) == 2
        await database.close()


@pytest.mark.parametrize("verb", ["read", "write"])
async def test_who_is_cancelled_waits_for_no_server_that_is_gone(verb: str) -> None:
    """It ended with an error of the database half a minute later, which its caller took for a reason to try again."""
    asked = asyncio.Event()

    def slow(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        asked.set()
        connection.execute(text("SELECT pg_sleep(9)"))

    async with postgres_of_its_own() as server:
        database = open_database(f"postgresql+asyncpg://postgres@/postgres?host={server.socket_dir}", busy_timeout_s=5)
        working = asyncio.create_task(getattr(database, verb)(slow))
        await asked.wait()
        sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        await until_found(lambda: server.fetch(sleeping))
        server.pause()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        server.resume()
        assert await database.write(lambda connection: connection.execute(text("SELECT 2")).scalar_one()) == 2
        await database.close()
