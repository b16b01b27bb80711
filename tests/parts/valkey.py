"""Fixtures for a real Valkey server and the bus on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from tests.parts.lane_audit import contradictions, unaccounted_keys


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One embedded server for the whole run, on a unix socket in a temporary directory."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def raw_redis(valkey_server: EmbeddedValkey) -> Iterator[Any]:
    """A plain client to look behind the bus; untyped, as redis types every answer as any of five."""
    client = Redis.from_url(valkey_server.url, protocol=2)
    yield client
    client.close()


@pytest.fixture
def valkey_url(valkey_server: EmbeddedValkey, raw_redis: Any) -> Iterator[str]:
    """An empty server's URL. A test fails that leaves keys which `gateway.bus.keys` does not account for
    (undeclared, of another type, with or without a TTL against the declaration), or that no lane explains."""
    raw_redis.flushall()
    yield valkey_server.url
    leaks = unaccounted_keys(raw_redis)
    assert not leaks, f"keys nobody declared, or of another type or lifetime than declared: {leaks}"
    broken = contradictions(raw_redis)
    assert not broken, f"keys of lanes that contradict each other: {broken}"


@pytest.fixture
async def bus(valkey_url: str) -> AsyncIterator[RedisBus]:
    """The bus of one role on an empty server."""
    opened = await open_bus(valkey_url)
    yield opened
    await opened.close()
