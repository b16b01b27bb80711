"""The owner of each shard now, and the clients of these servers.

One server, or the primary that the Sentinels name, is always the same client: its next connection asks
anew where it goes. On a Cluster all keys of a shard share one hash slot, so that a shard has one owner. Any node
tells who it is; we ask when somebody met a server that does not serve the shard (any more), a random node first,
for one that was cut off from the others goes on telling what was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, ClusterDownError, ConnectionError, NoPermissionError, RedisError

from gateway.bus.keys import ShardKeys
from gateway.bus.server import Server, ServerConnection, ServerNode, close_client

_LOOK_AGAIN_S: Final = 0.1  # many connections meet the same failover at once: one look is enough for all


def slot_of(shard: int) -> int:
    """Return the hash slot that every key of the shard is in."""
    return key_slot(ShardKeys(shard).meta.encode())


def owners_in(rows: Sequence[Any], shards: int, asked: ServerNode) -> Mapping[int, ServerNode]:
    """Shard -> owner, from the answer to CLUSTER SLOTS. A node that does not know its own name is the one asked."""
    owners: dict[int, ServerNode] = {}
    for first, last, primary, *_ in rows:
        host = primary[0].decode() if primary[0] else asked.host
        for shard in range(shards):
            if first <= slot_of(shard) <= last:
                owners[shard] = ServerNode(host, int(primary[1]))
    return owners


class Cluster:
    """The map of shards to owners, one per role."""

    def __init__(self, server: Server, *, shards: int) -> None:
        self._server = server
        self._shards = shards
        self._owners: Mapping[int, ServerNode] = {}
        self._looking = asyncio.Lock()
        self._looked_at_s = float("-inf")

    async def owner(self, shard: int) -> ServerNode:
        """Return the owner. Raises `ClusterDownError` while nobody owns it, `ConnectionError` when no node answers."""
        if shard not in self._owners:
            await self.look()
        if shard not in self._owners:
            raise ClusterDownError(f"nobody serves hash slot {slot_of(shard)}")
        return self._owners[shard]

    @property
    def known(self) -> tuple[ServerNode, ...]:
        """The owners we have heard of, and the nodes of the URL, in any order."""
        nodes = list({*self._owners.values(), *self._server.address.nodes})
        random.shuffle(nodes)
        return tuple(nodes)

    async def somebody(self) -> ServerNode:
        """Return any server that owns a shard."""
        if not self._owners:
            await self.look()
        return random.choice(list(self._owners.values()))

    async def look(self) -> None:
        """Ask again who owns what, unless somebody has just done so."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at_s < _LOOK_AGAIN_S:
                return
            self._owners = await self._ask_somebody()
            self._looked_at_s = asyncio.get_running_loop().time()

    async def _ask_somebody(self) -> Mapping[int, ServerNode]:
        for node in self.known:
            client = self._server.discovery_client(node)
            try:
                rows = await client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            except (AuthenticationError, NoPermissionError):
                raise
            except (RedisError, OSError):
                continue
            finally:
                await close_client(client)
            if owners := owners_in(rows, self._shards, node):
                return owners
        raise ConnectionError("no node of the Cluster answers")


class NodeClients:
    """One client per node, made when it is first needed. None is the only server where there is no Cluster."""

    def __init__(self, make: Callable[[ServerNode | None], Redis]) -> None:
        self._make = make
        self._clients: dict[ServerNode | None, Redis] = {}
        self._idle: dict[Redis, list[ServerConnection]] = {}

    def of(self, node: ServerNode | None) -> Redis:
        """Return the client of `node`."""
        if node not in self._clients:
            self._clients[node] = self._make(node)
        return self._clients[node]

    async def take(self, client: Redis) -> ServerConnection:
        """Return a connection of `client` that nobody uses, a new one if there is none."""
        idle = self._idle.get(client, [])
        while idle:
            if (connection := idle.pop()).is_open:
                return connection
        return await ServerConnection.to(client)

    def give_back(self, client: Redis, connection: ServerConnection) -> None:
        """Keep a connection that owes nothing for the next who takes one."""
        self._idle.setdefault(client, []).append(connection)

    def hang_up(self) -> None:
        """Close every connection that nobody uses."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    async def close(self) -> None:
        """Close the clients of all nodes."""
        self.hang_up()
        for client in self._clients.values():
            await close_client(client)


class NodeResolver:
    """Leads to the server that serves one shard, or, without a `shard`, to any server of the Cluster: what is published
    at one is heard at all. Shards of one owner share its client. Every method may raise what redis raises."""

    def __init__(self, clients: NodeClients, cluster: Cluster | None = None, shard: int | None = None) -> None:
        self._clients = clients
        self._cluster = cluster
        self._shard = shard
        self._chosen: ServerNode | None = None

    async def client(self) -> Redis:
        """Return the client of the server that serves us now."""
        if self._cluster is None:
            return self._clients.of(None)
        if self._shard is not None:
            return self._clients.of(await self._cluster.owner(self._shard))
        if self._chosen is None:
            self._chosen = await self._cluster.somebody()
        return self._clients.of(self._chosen)

    @asynccontextmanager
    async def lend(self, guest: ServerNode | None = None) -> AsyncIterator[ServerConnection]:
        """Lend a connection to the server that serves us now, or to the one that a slot is just moving to (ASK); a
        connection whose use fails is closed."""
        if guest is None or self._cluster is None:  # one server moves no slots
            client = await self.client()
        else:
            client = self._clients.of(guest)
        connection = await self._clients.take(client)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._clients.give_back(client, connection)

    async def look_again(self) -> None:
        """Find out who serves us: the one we knew does not any more."""
        if self._cluster is None:
            # A primary that became a replica: the next connection goes to its successor.
            self._clients.hang_up()
            await self._clients.of(None).connection_pool.disconnect(inuse_connections=False)
            return
        self._chosen = None
        await self._cluster.look()


def client_of_owner(server: Server, nodes: Sequence[ServerNode], shard: int) -> BlockingRedis:
    """For a thread of its own: the client of the shard's owner now, as the first of `nodes` to answer says.

    Raises what redis raises."""
    for node in nodes:
        client = server.heartbeat_client(node)
        try:
            rows: Any = client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        except (RedisError, OSError):
            client.close()
            continue
        owner = owners_in(rows, shard + 1, node).get(shard)
        if owner == node:
            return client
        client.close()
        if owner is not None:
            return server.heartbeat_client(owner)
    raise ConnectionError("no node of the Cluster answers")
