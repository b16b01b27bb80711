"""What kind of server this is, and whether it keeps what it is given: for the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from gateway.bus.connection import close_client, translated
from gateway.bus.server import Server

_KEEPS_ALL: Final = "noeviction"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """`is_durable`: each write is in the append-only file. `eviction` is `maxmemory-policy`."""

    product: str
    version: str
    is_durable: bool
    eviction: str
    memory_max_bytes: int

    @property
    def may_evict(self) -> bool:
        """True when a full server would throw messages away instead of refusing them."""
        return self.memory_max_bytes > 0 and self.eviction != _KEEPS_ALL


async def inspect_server(url: str) -> ServerFacts:
    """Ask the server about itself. Raises `ConfigError`, `BusUnavailable`."""
    server = Server.at(url)
    client = server.pool_client()
    try:
        found: dict[str, Any] = await client.info()
    except (RedisError, OSError) as error:
        raise translated(error, server.where) from None
    finally:
        await close_client(client)
    valkey = str(found.get("valkey_version", ""))
    return ServerFacts(
        product="Valkey" if valkey else "Redis",
        version=valkey or str(found.get("redis_version", "?")),
        is_durable=bool(found.get("aof_enabled")),
        eviction=str(found.get("maxmemory_policy", _KEEPS_ALL)),
        memory_max_bytes=int(found.get("maxmemory", 0)),
    )
