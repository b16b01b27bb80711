"""A look at the servers: whether they can serve us, whose bus they hold, and, for the doctor, whether they keep what
they are given. No message ever contains the password."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.bus.client import Cluster, translated
from gateway.bus.keys import CLUSTER_SHARDS, ShardKeys
from gateway.bus.server import Arrangement, Server, close_client
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.limits import INSTALLATION_WAIT_S

LAYOUT_VERSION: Final = 1
INSTALLATION_FIELD: Final = "installation"
"""Of `meta`: whose the bus is."""
OLDEST_SERVER: Final = (6, 2)
_LOOK_EVERY_S: Final = 0.02  # a first start waits for it
_KEEPS_ALL: Final = "noeviction"
_UNKNOWN: Final = ""  # managed servers often refuse CONFIG GET


async def check_server(client: Redis, where: str, *, shards: int, installation: str | None) -> str:
    """Return the installation that the bus belongs to; raises as `settle_installation` does, and `ConfigError` for a
    server too old, or laid out for another number of shards."""
    version = str((await client.info("server")).get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
        raise ConfigError(f"Redis at {where} is version {version}; Trivet needs Redis 6.2 or newer, or Valkey")
    await check_layout(client, where, shards=shards)
    return await settle_installation(client, where, installation)


async def check_layout(client: Redis, where: str, *, shards: int) -> None:
    """Check how keys are laid out, which the first Trivet on a server writes; another layout is refused."""
    meta = ShardKeys(0).meta
    wanted = {"shards": shards, "layout": LAYOUT_VERSION}
    for field, number in wanted.items():
        await client.hsetnx(meta, field, str(number))
        present = int(await client.hget(meta, field) or 0)
        if present != number:
            raise ConfigError(
                f"Redis at {where} holds a bus with {field} = {present}, this Trivet works with {number}: "
                "use the version that made it, or another database number in redis.url"
            )


async def settle_installation(client: Redis, where: str, wanted: str | None) -> str:
    """Return the installation that the bus belongs to. The first that has a database tells it (`wanted`); those without
    one take what the bus says, and wait until it does.

    Raises `ConfigError` when it belongs to another, `BusUnavailable` when nobody has told it INSTALLATION_WAIT_S later.
    """
    meta = ShardKeys(0).meta
    if wanted is not None:
        await client.hsetnx(meta, INSTALLATION_FIELD, wanted)
    give_up_at = asyncio.get_running_loop().time() + INSTALLATION_WAIT_S
    while True:
        present: Any = await client.hget(meta, INSTALLATION_FIELD)
        if present is not None:
            refuse_foreign(present.decode(), where, wanted)
            return str(present.decode())
        if asyncio.get_running_loop().time() > give_up_at:
            raise BusUnavailable(f"Redis at {where} does not say yet whose it is: start `trivet agent`, which tells it")
        await asyncio.sleep(_LOOK_EVERY_S)


def refuse_foreign(present: str, where: str, wanted: str | None) -> None:
    """Raise `ConfigError` when the bus at `where` belongs to `present` and not to `wanted`."""
    if wanted not in (None, present):
        raise ConfigError(
            f"Redis at {where} belongs to the installation {present}, the database to {wanted}: give this Trivet a "
            "server or a database number of its own in redis.url; or, if both are its own, stop it and run "
            "`trivet installation --take-bus`"
        )


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
        """Tell whether a full server would discard messages instead of refusing them."""
        return self.memory_max_bytes > 0 and self.eviction != _KEEPS_ALL


@dataclass(frozen=True, slots=True)
class BusFacts:
    """The servers of a URL that hold keys. `installation`: whose the bus is, empty when nobody has told it.
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
