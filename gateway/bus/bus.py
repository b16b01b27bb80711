"""The bus of one role: open it once, hand its rooms to whoever needs them.

On one server, or the primary of a Sentinel set, there is one shard, and its rooms are the bus. On a
Cluster there are CLUSTER_SHARDS of them, and rooms over these that ask the right one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.bus.bell import Bells
from gateway.bus.caps import Caps
from gateway.bus.cluster import AnyWay, Cluster, NodeClients, ShardWay
from gateway.bus.connection import INSTALLATION_FIELD, check_server, close_client, refuse_foreign, translated
from gateway.bus.heartbeat import Beating, Heartbeat
from gateway.bus.keys import CLUSTER_SHARDS, InstallationNames, ShardKeys
from gateway.bus.line import Line
from gateway.bus.outages import Outages
from gateway.bus.pool import Pool
from gateway.bus.processes import ProcessName
from gateway.bus.pulse import SpreadPulse
from gateway.bus.server import Server
from gateway.bus.shard import Shard, Terms, Ways
from gateway.bus.spread_attachments import SpreadAttachments
from gateway.bus.spread_channels import SpreadDeliveries, SpreadIntake, SpreadPlaces, SpreadQuestions
from gateway.bus.spread_lanes import SpreadLanes
from gateway.bus.spread_operator import SpreadAccess, SpreadOperator
from gateway.bus.spread_vault import SpreadVault
from gateway.bus.way import OneServer
from gateway.contracts.ports import (
    AccessBus,
    AttachmentBus,
    Cancel,
    DeliveryBus,
    IntakeBus,
    LaneBus,
    OperatorBus,
    PlaceBus,
    QuestionBus,
    SuggestionBus,
    VaultBus,
)
from gateway.limits import LANE_MESSAGES_MAX, QUEUE_MESSAGES_MAX, TURNS_MAX, USER_TURNS_MAX

Pulse: TypeAlias = Heartbeat | SpreadPulse


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
    `BusUnavailable` when nobody answers. `installation` is that of the database; whoever has none takes the one that
    the bus names, and waits until it names one. `user_turns_max` is how many lanes of one user run or are next, the
    others are parked; `turns_max` how many turns run at a time over all processes, 0 for any number. On how many
    replicas a message must be before it counts as received, `wait_replicas` says. `process` is whose name
    the leases carry, by default this one.
    """
    server = Server.at(url)
    caps = Caps(lane_messages_max, queue_messages_max, user_turns_max, turns_max)

    def terms_of(found: str) -> Terms:
        return Terms(caps, InstallationNames(found), process or ProcessName.of_this_process(), wait_replicas)

    if server.is_cluster:
        return await _open_cluster(server, installation, terms_of)
    client = server.pool_client()
    try:
        found = await check_server(client, server.where, shards=1, installation=installation)
    except (RedisError, OSError) as error:
        await close_client(client)
        raise translated(error, server.where) from None
    except BaseException:
        await close_client(client)
        raise
    return _of_one_shard(server, client, terms_of(found))


class PulseMaker(Protocol):
    """Opens the heartbeat of a worker."""

    def __call__(
        self, worker: str, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None], beating: Beating
    ) -> Pulse: ...


@dataclass(frozen=True, slots=True)
class RedisBus:
    """The rooms of the bus, one per port. `names` are those of the installation that it belongs to, `line` leads to
    where that is written."""

    where: str
    names: InstallationNames
    line: Line
    intake: IntakeBus
    access: AccessBus
    lanes: LaneBus
    deliveries: DeliveryBus
    places: PlaceBus
    questions: QuestionBus
    suggestions: SuggestionBus
    vault: VaultBus
    attachments: AttachmentBus
    operator: OperatorBus
    pulses: PulseMaker
    closing: Sequence[Callable[[], Awaitable[None]]]

    def heartbeat(
        self,
        worker: str,
        *,
        on_cancel: Callable[[Cancel], None],
        on_lost: Callable[[], None],
        beating: Beating = Beating(),  # noqa: B008 - frozen
    ) -> Pulse:
        """The pulse of a registered worker, for `async with`."""
        return self.pulses(worker, on_cancel=on_cancel, on_lost=on_lost, beating=beating)

    async def keep_named(self) -> None:
        """Say again whose the bus is, if Redis has forgotten it. Raises `ConfigError` when it is another's by now."""
        meta, ours = ShardKeys(0).meta, self.names.installation
        commands = ("HSETNX", meta, INSTALLATION_FIELD, ours), ("HGET", meta, INSTALLATION_FIELD)
        _, present = await self.line.call_all(commands)
        refuse_foreign(present.decode() if present else ours, self.where, ours)

    async def give_to(self, installation: str) -> None:
        """Let the bus belong to `installation`. Whoever is at work on it is to be started again."""
        await self.line.call("HSET", ShardKeys(0).meta, INSTALLATION_FIELD, installation)

    async def close(self) -> None:
        """Finish what was sent, hang up."""
        for close in self.closing:
            await close()


def _of_one_shard(server: Server, client: Redis, terms: Terms) -> RedisBus:
    intake, line = OneServer(server.line_client()), OneServer(server.line_client())
    shard = Shard(0, Ways(server.where, intake, line, OneServer(client)), terms)

    def pulse(
        worker: str, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None], beating: Beating
    ) -> Pulse:
        leases = shard.lanes.leases
        return Heartbeat(server.heartbeat_client, leases, worker, on_cancel=on_cancel, on_lost=on_lost, beating=beating)

    return RedisBus(
        server.where,
        terms.names,
        shard.line,
        shard.intake,
        shard.access,
        shard.lanes,
        shard.deliveries,
        shard.places,
        shard.questions,
        shard.suggestions,
        shard.vault,
        shard.attachments,
        shard.operator,
        pulse,
        closing=[shard.close],
    )


async def _open_cluster(server: Server, installation: str | None, terms_of: Callable[[str], Terms]) -> RedisBus:
    count = CLUSTER_SHARDS
    cluster = Cluster(server, shards=count)
    waiting = NodeClients(server.pool_client)
    first = ShardWay(cluster, 0, waiting)
    try:
        found = await check_server(await first.client(), server.where, shards=count, installation=installation)
    except (RedisError, OSError) as error:
        await waiting.close()
        raise translated(error, server.where) from None
    except BaseException:
        await waiting.close()
        raise
    # A shard has one pipeline under way at a time in each line, so that many connections are never needed.
    intake, lines = (NodeClients(lambda node: server.line_client(node, connections_max=count)) for _ in range(2))
    terms = terms_of(found)
    terms = replace(terms, caps=terms.caps.of_each(count))
    shards = [
        Shard(
            number,
            Ways(
                server.where,
                ShardWay(cluster, number, intake),
                ShardWay(cluster, number, lines),
                ShardWay(cluster, number, waiting),
            ),
            terms,
        )
        for number in range(count)
    ]
    return _of_many_shards(server, cluster, shards, terms.names, (intake, lines, waiting))


def _of_many_shards(
    server: Server,
    cluster: Cluster,
    shards: Sequence[Shard],
    names: InstallationNames,
    clients: Sequence[NodeClients],
) -> RedisBus:
    *_, waiting = clients
    pool = Pool(AnyWay(cluster, waiting), server.where)
    bells = Bells(pool, names, len(shards))
    outages = Outages([shard.line for shard in shards])
    lanes = SpreadLanes(shards, pool, bells, outages)

    def pulse(
        worker: str, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None], beating: Beating
    ) -> Pulse:
        return SpreadPulse(server, cluster, shards, worker, on_cancel=on_cancel, beating=beating)

    return RedisBus(
        server.where,
        names,
        shards[0].line,
        SpreadIntake(shards),
        SpreadAccess(shards),
        lanes,
        SpreadDeliveries(shards, names, pool, bells, outages),
        SpreadPlaces(shards),
        SpreadQuestions(shards),
        shards[0].suggestions,
        SpreadVault(shards),
        SpreadAttachments(shards),
        SpreadOperator(shards),
        pulse,
        closing=[
            bells.close,
            outages.close,
            lanes.close,
            *(shard.close for shard in shards),
            *(each.close for each in clients),
        ],
    )
