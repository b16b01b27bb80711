"""The bus of one role: open it once, hand its parts to those that need them.

On one server, or the primary of a Sentinel set, there is one shard; on a Cluster there are CLUSTER_SHARDS of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from redis import Redis as BlockingRedis
from redis.exceptions import RedisError

from gateway.bus.access import Access, Questions, Suggestions
from gateway.bus.answers import FetchedAnswers
from gateway.bus.client import (
    Cluster,
    Copies,
    NodeClients,
    NodeResolver,
    PipelinedConnection,
    Pool,
    client_of_owner,
    translated,
)
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Files, Vault
from gateway.bus.heartbeat import Heartbeat, HeartbeatTimes, ProcessName
from gateway.bus.inbound import Control, Inbound
from gateway.bus.inspection import INSTALLATION_FIELD, check_server, refuse_foreign
from gateway.bus.keys import CLUSTER_SHARDS, InstallationNames, ShardKeys
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.bus.places import Places
from gateway.bus.server import Server
from gateway.bus.shards import BusCaps, Shard, Shards
from gateway.contracts.ports import Cancel
from gateway.limits import LANE_MESSAGES_MAX, QUEUE_MESSAGES_MAX, TURNS_MAX, USER_TURNS_MAX


async def open_bus(
    url: str,
    *,
    installation: str | None = None,
    lane_messages_max: int = LANE_MESSAGES_MAX,
    queue_messages_max: int = QUEUE_MESSAGES_MAX,
    user_turns_max: int = USER_TURNS_MAX,
    turns_max: int = TURNS_MAX,
    wait_replicas: int = 0,
    process: ProcessName | None = None,
) -> RedisBus:
    """Connect to the Redis at `url` and see that it can serve us.

    Raises `ConfigError` for a wrong URL, password, server version or layout, or a bus of another installation,
    `BusUnavailable` when nobody answers. `installation` is that of the database; a caller without one takes the one
    that the bus names, and waits until it names one. `user_turns_max` is how many lanes of a user run or are next, the
    others are parked; `turns_max` how many turns run at a time over all processes, 0 for any number. On how many
    replicas a message must be before it counts as received, `wait_replicas` says. `process` is whose name
    the leases carry, by default this one."""
    server = Server.at(url)
    cluster = Cluster(server, shards=CLUSTER_SHARDS) if server.is_cluster else None
    count = CLUSTER_SHARDS if server.is_cluster else 1
    waiting = NodeClients(server.pool_client)
    try:
        client = await NodeResolver(waiting, cluster, 0).client()
        found = await check_server(client, server.where, shards=count, installation=installation)
    except (RedisError, OSError) as error:
        await waiting.close()
        raise translated(error, server.where) from None
    except BaseException:
        await waiting.close()
        raise
    intake, lines = (NodeClients(server.line_client) for _ in range(2))
    names = InstallationNames(found)
    caps = BusCaps(lane_messages_max, queue_messages_max, user_turns_max, turns_max).of_each(count)

    def shard(number: int) -> Shard:
        copies = Copies(wait_replicas, ShardKeys(number).meta) if wait_replicas else None
        return Shard(
            number,
            names,
            caps,
            intake=PipelinedConnection(NodeResolver(intake, cluster, number), server.where, copies=copies),
            line=PipelinedConnection(NodeResolver(lines, cluster, number), server.where),
            pool=Pool(NodeResolver(waiting, cluster, number), server.where),
            blocking_client=partial(_blocking_client, server, cluster, number),
        )

    shards = Shards(list(map(shard, range(count))), Pool(NodeResolver(waiting, cluster), server.where), names)
    return RedisBus(server.where, shards, process or ProcessName.of_this_process(), clients=(intake, lines, waiting))


def _blocking_client(server: Server, cluster: Cluster | None, number: int) -> BlockingRedis:
    if cluster is None:
        return server.heartbeat_client()
    return client_of_owner(server, cluster.known, number)


class RedisBus:
    """The parts of the bus, one for each noun. `names` are those of the installation that it belongs to."""

    def __init__(self, where: str, shards: Shards, process: ProcessName, *, clients: Sequence[NodeClients]) -> None:
        self.where = where
        self.names = shards.names
        self.intake = Inbound(shards)
        self.access = Access(shards)
        self.answers = FetchedAnswers(shards)
        self.lanes = Lanes(shards)
        self.control = Control(shards)
        self.deliveries = Deliveries(shards, process)
        self.places = Places(shards)
        self.questions = Questions(shards)
        self.suggestions = Suggestions(shards)
        self.vault = Vault(shards)
        self.files = Files(shards)
        self.operator = Operator(shards)
        self._shards = shards
        self._clients = clients

    def heartbeat(
        self,
        worker: str,
        *,
        on_cancel: Callable[[Cancel], None],
        on_lost: Callable[[], None],
        times: HeartbeatTimes = HeartbeatTimes(),  # noqa: B008 - frozen
    ) -> Heartbeat:
        """Return the heartbeat of a registered worker, for `async with`."""
        return Heartbeat(self._shards, self.lanes, worker, on_cancel=on_cancel, on_lost=on_lost, times=times)

    async def keep_named(self) -> None:
        """Say again whose the bus is, if Redis has forgotten it. Raises `ConfigError` when it is another's by now."""
        first, ours = self._shards.first, self.names.installation
        meta = first.keys.meta
        commands = ("HSETNX", meta, INSTALLATION_FIELD, ours), ("HGET", meta, INSTALLATION_FIELD)
        _, present = await first.line.call_all(commands)
        refuse_foreign(present.decode() if present else ours, self.where, ours)

    async def give_to(self, installation: str) -> None:
        """Let the bus belong to `installation`. All processes at work on it are to be started again."""
        first = self._shards.first
        await first.line.call("HSET", first.keys.meta, INSTALLATION_FIELD, installation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what was sent, hang up."""
        await self._shards.stop_listening()
        await self.lanes.close()
        await self._shards.close()
        for clients in self._clients:
            await clients.close()
