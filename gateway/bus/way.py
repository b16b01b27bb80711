"""The way from a shard to the server that serves it now.

One server, or the primary that the Sentinels name, is always the same client: its next connection asks
anew where it goes. In a Cluster the owner of a shard may be another server at any time (`cluster.py`).
"""

from __future__ import annotations

from typing import Protocol

from redis.asyncio import Redis

from gateway.bus.address import Node
from gateway.bus.connection import close_client


class Way(Protocol):
    """Every method may raise what redis raises."""

    async def client(self) -> Redis:
        """The client of the server that serves us now."""
        ...

    async def lost(self) -> None:
        """It does not serve us any more: find out who does."""
        ...

    def guest(self, node: Node) -> Redis:
        """The client of the server that a slot is just moving to (ASK)."""
        ...

    async def close(self) -> None: ...


class OneServer:
    """A way that always leads to one client."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def client(self) -> Redis:
        return self._client

    async def lost(self) -> None:
        """A primary that became a replica: the next connection goes to its successor."""
        await self._client.connection_pool.disconnect(inuse_connections=False)

    def guest(self, node: Node) -> Redis:
        """One server moves no slots; whoever answers so is asked again."""
        return self._client

    async def close(self) -> None:
        """Hang up."""
        await close_client(self._client)
