"""A process that is paused in the middle of a transaction holds up nobody else for long. On PostgreSQL: a SQLite file
belongs to one machine."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import text

from gateway.contracts.errors import StoreUnavailable
from gateway.store.engine import Connection, open_database
from tests.parts.postgres_server import postgres_of_its_own


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
