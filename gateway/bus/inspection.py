"""What servers these are, and whether they keep what they are given: for the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.bus.address import Arrangement
from gateway.bus.cluster import Cluster
from gateway.bus.connection import INSTALLATION_FIELD, close_client, translated
from gateway.bus.keys import CLUSTER_SHARDS, ShardKeys
from gateway.bus.server import Server

_KEEPS_ALL: Final = "noeviction"
_UNKNOWN: Final = ""  # managed servers often refuse CONFIG GET


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One server that holds keys of ours. `eviction` is `maxmemory-policy`; `appendfsync` is empty where the
    server does not tell it, `where` is its address without secrets."""

    where: str
    product: str
    version: str
    is_primary: bool
    replicas: int
    is_durable: bool
    appendfsync: str
    is_write_failing: bool
    eviction: str
    memory_max_bytes: int

    @property
    def may_evict(self) -> bool:
        """True when a full server would throw messages away instead of refusing them."""
        return self.memory_max_bytes > 0 and self.eviction != _KEEPS_ALL


@dataclass(frozen=True, slots=True)
class BusFacts:
    """What a URL leads to: the servers that hold keys. `installation`: whose the bus is, empty when nobody has told it.
    `needs_full_coverage`: one lost primary of the Cluster stops all of it."""

    arrangement: Arrangement
    servers: tuple[ServerFacts, ...]
    installation: str
    needs_full_coverage: bool = False


async def inspect_bus(url: str) -> BusFacts:
    """Ask the servers about themselves. Raises `ConfigError`, `BusUnavailable`."""
    server = Server.at(url)
    try:
        if server.is_cluster:
            return await _inspect_cluster(server)
        installation = await _installation(server.pool_client())
        facts, _ = await _inspect(server.pool_client(), server.where)
        return BusFacts(server.address.arrangement, (facts,), installation)
    except (RedisError, OSError) as error:
        raise translated(error, server.where) from None


async def _inspect_cluster(server: Server) -> BusFacts:
    cluster = Cluster(server, shards=CLUSTER_SHARDS)
    owners = dict.fromkeys([await cluster.owner(shard) for shard in range(CLUSTER_SHARDS)])
    installation = await _installation(server.pool_client(await cluster.owner(0)))
    found = [await _inspect(server.pool_client(node), str(node)) for node in owners]
    return BusFacts(
        server.address.arrangement,
        tuple(facts for facts, _ in found),
        installation,
        needs_full_coverage=any(config.get("cluster-require-full-coverage") == "yes" for _, config in found),
    )


async def _installation(client: Redis) -> str:
    try:
        return _text(await client.hget(ShardKeys(0).meta, INSTALLATION_FIELD) or "")
    finally:
        await close_client(client)


async def _inspect(client: Redis, where: str) -> tuple[ServerFacts, dict[str, str]]:
    try:
        found: dict[str, Any] = await client.info()
        config = await _config_of(client)
    finally:
        await close_client(client)
    valkey = str(found.get("valkey_version", ""))
    facts = ServerFacts(
        where=where,
        product="Valkey" if valkey else "Redis",
        version=valkey or str(found.get("redis_version", "?")),
        is_primary=found.get("role") == "master",
        replicas=int(found.get("connected_slaves", 0)),
        is_durable=bool(found.get("aof_enabled")),
        appendfsync=config.get("appendfsync", _UNKNOWN),
        is_write_failing=found.get("aof_last_write_status", "ok") != "ok",
        eviction=str(found.get("maxmemory_policy", _KEEPS_ALL)),
        memory_max_bytes=int(found.get("maxmemory", 0)),
    )
    return facts, config


async def _config_of(client: Redis) -> dict[str, str]:
    config: dict[str, str] = {}
    for name in ("appendfsync", "cluster-require-full-coverage"):
        try:
            answer: dict[Any, Any] = await client.config_get(name)
        except RedisError:  # not allowed, or unknown here: what it says stays open
            continue
        config.update((_text(key), _text(value)) for key, value in answer.items())
    return config


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word
