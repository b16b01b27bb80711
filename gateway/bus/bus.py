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
from gateway.bus.connection import check_server, close_client, translated
from gateway.bus.heartbeat import Beating, Heartbeat
from gateway.bus.keys import CLUSTER_SHARDS
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
    lane_messages_max: int = LANE_MESSAGES_MAX,
    queue_messages_max: int = QUEUE_MESSAGES_MAX,
    user_turns_max: int = USER_TURNS_MAX,
    turns_max: int = TURNS_MAX,
    wait_replicas: int = 0,
    process: ProcessName | None = None,
) -> RedisBus:
    """Connect to the Redis at `url` and see that it can serve us.

    Raises `ConfigError` for a wrong URL, password, server version or layout, `BusUnavailable` when nobody
    answers. `user_turns_max` is how many lanes of one user run or are next, the others are parked;
    `turns_max` how many turns run at a time over all processes, 0 for any number. On how many
    replicas a message must be before it counts as received, `wait_replicas` says. `process` is whose name
    the leases carry, by default this one.
    """
    server = Server.at(url)
    caps = Caps(lane_messages_max, queue_messages_max, user_turns_max, turns_max)
    terms = Terms(caps, process or ProcessName.of_this_process(), wait_replicas)
    if server.is_cluster:
        return await _open_cluster(server, terms)
    client = server.pool_client()
    try:
        await check_server(client, server.where, shards=1)
    except (RedisError, OSError) as error:
        await close_client(client)
        raise translated(error, server.where) from None
    except BaseException:
        await close_client(client)
        raise
    return _of_one_shard(server, client, terms)


class PulseMaker(Protocol):
    """Opens the heartbeat of a worker."""

    def __call__(
        self, worker: str, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None], beating: Beating
    ) -> Pulse: ...


@dataclass(frozen=True, slots=True)
class RedisBus:
    """The rooms of the bus, one per port."""

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


async def _open_cluster(server: Server, terms: Terms) -> RedisBus:
    count = CLUSTER_SHARDS
    cluster = Cluster(server, shards=count)
    waiting = NodeClients(server.pool_client)
    first = ShardWay(cluster, 0, waiting)
    try:
        await check_server(await first.client(), server.where, shards=count)
    except (RedisError, OSError) as error:
        await waiting.close()
        raise translated(error, server.where) from None
    except BaseException:
        await waiting.close()
        raise
    # A shard has one pipeline under way at a time in each line, so that many connections are never needed.
    intake, lines = (NodeClients(lambda node: server.line_client(node, connections_max=count)) for _ in range(2))
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
    return _of_many_shards(server, cluster, shards, (intake, lines, waiting))


def _of_many_shards(
    server: Server, cluster: Cluster, shards: Sequence[Shard], clients: Sequence[NodeClients]
) -> RedisBus:
    *_, waiting = clients
    pool = Pool(AnyWay(cluster, waiting), server.where)
    bells = Bells(pool, len(shards))
    outages = Outages([shard.line for shard in shards])
    lanes = SpreadLanes(shards, pool, bells, outages)

    def pulse(
        worker: str, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None], beating: Beating
    ) -> Pulse:
        return SpreadPulse(server, cluster, shards, worker, on_cancel=on_cancel, beating=beating)

    return RedisBus(
        SpreadIntake(shards),
        SpreadAccess(shards),
        lanes,
        SpreadDeliveries(shards, pool, bells, outages),
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
