"""Fixtures for real Valkey servers and the bus on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis import Redis

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.access import Projection
from tests.parts.databases import INSTALLATION
from tests.parts.lane_audit import contradictions, unaccounted_keys
from tests.parts.redis_sets import ClusterSet, SentinelSet


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One embedded server for the whole run, on a unix socket in a temporary directory."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture(scope="session")
def sentinel_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    """A primary, a replica and three Sentinels for the whole run. Tests may change the primary, not end a server."""
    servers = SentinelSet(tmp_path_factory.mktemp("sentinel"))
    servers.start()
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def cluster_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSet]:
    """Three primaries for the whole run. Tests leave the slots where they are, and the servers running."""
    servers = ClusterSet(tmp_path_factory.mktemp("cluster"))
    servers.start()
    yield servers
    servers.stop()


@dataclass(frozen=True)
class BusServers:
    """What a bus may stand on: its URL, and plain clients to look behind it, one per server that has keys.

    The clients are untyped, as redis types every answer as any of five.
    """

    url: str
    clients: tuple[Any, ...]


@pytest.fixture
def bus_servers(request: pytest.FixtureRequest) -> Iterator[BusServers]:
    """The embedded server; for the suites that `tests/contract` runs on several arrangements, theirs."""
    match getattr(request, "param", "one"):
        case "sentinel":
            watched: SentinelSet = request.getfixturevalue("sentinel_set")
            servers = BusServers(watched.url, (Redis(port=watched.primary.port, protocol=2),))
        case "cluster":
            cluster: ClusterSet = request.getfixturevalue("cluster_set")
            servers = BusServers(cluster.url, tuple(Redis(port=one.port, protocol=2) for one in cluster.primaries))
        case _:
            server: EmbeddedValkey = request.getfixturevalue("valkey_server")
            servers = BusServers(server.url, (Redis.from_url(server.url, protocol=2),))
    yield servers
    for client in servers.clients:
        client.close()


@pytest.fixture
def raw_redis(bus_servers: BusServers) -> Any:
    """A plain client to look behind a bus of one shard."""
    (client,) = bus_servers.clients
    return client


_NAMES: dict[str, list[dict[bytes, bytes]]] = {}
"""By server, what `name_bus` wrote there the first time: to do it again takes ten times as long."""


@pytest.fixture
def valkey_url(bus_servers: BusServers) -> Iterator[str]:
    """The URL of empty servers. A test fails that leaves keys which `gateway.bus.keys` does not account for
    (undeclared, of another type, with or without a TTL against the declaration), or that no lane explains."""
    for client in bus_servers.clients:
        client.flushall()
    if named := _NAMES.get(bus_servers.url):
        for client, names in zip(bus_servers.clients, named, strict=True):
            for key, value in names.items():
                client.restore(key, 0, value)
    else:
        asyncio.run(name_bus(bus_servers.url))
        _NAMES[bus_servers.url] = [
            {key: client.dump(key) for key in client.scan_iter()} for client in bus_servers.clients
        ]
    yield bus_servers.url
    leaks = [leak for client in bus_servers.clients for leak in unaccounted_keys(client)]
    assert not leaks, f"keys nobody declared, or of another type or lifetime than declared: {leaks}"
    broken = [found for client in bus_servers.clients for found in contradictions(client)]
    assert not broken, f"keys of lanes that contradict each other: {broken}"


async def name_bus(url: str) -> None:
    """Say whose an empty bus is, as the first agent or `trivet migrate` does."""
    await (await open_bus(url, installation=INSTALLATION)).close()


@pytest.fixture
async def bus(valkey_url: str) -> AsyncIterator[RedisBus]:
    """The bus of one role on empty servers."""
    opened = await open_bus(valkey_url)
    await opened.access.project(Projection())  # as an agent process does at its start
    yield opened
    await opened.close()
