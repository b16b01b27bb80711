"""What a Cluster adds to the contract: shards that move, a lease per shard, caps that are shared out."""

from __future__ import annotations

import asyncio

import pytest

from gateway.bus.bus import open_bus
from gateway.bus.client import owners_in, slot_of
from gateway.bus.heartbeat import HeartbeatTimes
from gateway.bus.keys import CLUSTER_SHARDS, ShardKeys, shard_number
from gateway.bus.server import ServerNode
from gateway.bus.shards import BusCaps
from gateway.contracts.errors import BusError, ConfigError
from gateway.contracts.ports import Cancel, CancelKind, Claim
from tests.parts.bus_samples import ANNA, message, receipt, reply
from tests.parts.claiming import claim_one
from tests.parts.databases import INSTALLATION
from tests.parts.redis_sets import ClusterSet, ValkeyProcess, wait_until
from tests.parts.waiting import PATIENCE_S

SHARD = ShardKeys(shard_number(ANNA, CLUSTER_SHARDS))
SLOT = slot_of(SHARD.number)


@pytest.fixture
def cluster(cluster_set: ClusterSet) -> ClusterSet:
    for primary in cluster_set.primaries:
        primary.ask("FLUSHALL")
    return cluster_set


def owner_of(cluster: ClusterSet) -> ValkeyProcess:
    """Who serves Anna's shard."""
    return next(one for one in cluster.primaries if one.ask("CLUSTER", "MYID") == owner_id(cluster))


def owner_id(cluster: ClusterSet) -> bytes:
    rows = cluster.servers[0].ask("CLUSTER", "SLOTS")
    return next(bytes(row[2][2]) for row in rows if row[0] <= SLOT <= row[1])


def test_the_shards_are_spread_over_all_primaries() -> None:
    """With three primaries of equal shares none has more than half of the shards."""
    rows = [[0, 5460, [b"a", 1]], [5461, 10922, [b"b", 1]], [10923, 16383, [b"", 1]]]
    owners = owners_in(rows, CLUSTER_SHARDS, ServerNode("asked", 1))
    assert len(owners) == CLUSTER_SHARDS
    assert {node.host for node in owners.values()} == {"a", "b", "asked"}


def test_caps_over_everybody_are_divided_and_those_of_a_user_are_not() -> None:
    caps = BusCaps(lane_messages_max=20, queue_messages_max=10_000, user_turns_max=2, turns_max=20).of_each(16)
    assert caps == BusCaps(lane_messages_max=20, queue_messages_max=625, user_turns_max=2, turns_max=2)
    assert BusCaps(turns_max=0).of_each(16).turns_max == 0


async def test_a_lane_keeps_its_order_while_its_shard_moves_to_another_server(cluster: ClusterSet) -> None:
    """Key by key, as `redis-cli --cluster reshard` does it, there and back, under load."""
    bus = await open_bus(
        cluster.url, installation=INSTALLATION, lane_messages_max=10_000, queue_messages_max=10_000 * CLUSTER_SHARDS
    )
    await bus.lanes.register("w1", lease_ttl_s=60)
    source = owner_of(cluster)
    target = next(one for one in cluster.primaries if one is not source)
    stop = asyncio.Event()

    async def write() -> int:
        number = 0
        while not stop.is_set() or number < 100:
            await bus.intake.enqueue(message(number, ANNA))
            number += 1
        return number

    writing = asyncio.create_task(write())
    await asyncio.to_thread(move_slot, cluster, source, target)
    await asyncio.to_thread(move_slot, cluster, target, source)
    stop.set()
    count = await writing
    claim = await claim_one(bus, messages_max=999)
    while len(claim.messages) < count:
        claim_more = await bus.lanes.extend(claim, messages_max=count)
        assert claim_more
        claim = Claim(claim.key, claim.lease, claim.attempts, (*claim.messages, *claim_more))
    assert [one.id for one in claim.messages] == [message(number, ANNA).id for number in range(count)]
    assert await bus.lanes.commit(claim, handled=count)
    await bus.close()


def move_slot(cluster: ClusterSet, source: ValkeyProcess, target: ValkeyProcess) -> None:
    target.ask("CLUSTER", "SETSLOT", SLOT, "IMPORTING", cluster.id_of(source))
    source.ask("CLUSTER", "SETSLOT", SLOT, "MIGRATING", cluster.id_of(target))
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", SLOT, 100):
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for server in (target, source, *cluster.primaries):
        server.ask("CLUSTER", "SETSLOT", SLOT, "NODE", cluster.id_of(target))
    wait_until(lambda: owner_id(cluster) == cluster.id_of(target).encode(), "the slot's new owner")


async def test_a_lease_that_one_shard_lost_is_taken_again_there(cluster: ClusterSet) -> None:
    """The turn that ran there is to end; those of the other shards know nothing of it."""
    bus = await open_bus(cluster.url, installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1, ANNA))
    await claim_one(bus)
    cancelled: asyncio.Queue[Cancel] = asyncio.Queue()
    lost = asyncio.Event()
    times = HeartbeatTimes(lease_ttl_s=60, every_s=0.02)
    async with bus.heartbeat("w1", on_cancel=cancelled.put_nowait, on_lost=lost.set, times=times) as pulse:
        owner_of(cluster).ask("ZREM", SHARD.workers, "w1")
        async with asyncio.timeout(PATIENCE_S):
            assert await cancelled.get() == Cancel(str(ANNA), CancelKind.RESTART)
        await asyncio.to_thread(
            wait_until, lambda: owner_of(cluster).ask("ZSCORE", SHARD.workers, "w1") is not None, "the new lease"
        )
        assert pulse.lease_end_s > 0
    assert not lost.is_set()
    await bus.close()


async def test_a_claim_that_nobody_waited_for_hands_its_lanes_back(cluster: ClusterSet) -> None:
    """Without counting a failed run: the next claim has them as they were."""
    bus = await open_bus(cluster.url, installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1, ANNA))
    claiming = asyncio.create_task(bus.lanes.claim("w1", lanes_max=9, messages_max=9, attempts_max=9))
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    async with asyncio.timeout(PATIENCE_S):
        assert (await claim_one(bus)).attempts == 0
    await bus.close()


async def test_a_ledger_row_belongs_to_a_reply_in_hand(cluster: ClusterSet) -> None:
    """Which shard it is in, its entry says: nobody writes a row for one that was not given out."""
    bus = await open_bus(cluster.url, installation=INSTALLATION)
    with pytest.raises(BusError, match="not an entry of this bus"):
        await bus.deliveries.record("telegram", "1-0", receipt(reply(1)).record)
    await bus.close()


async def test_one_node_of_a_cluster_is_no_server_by_itself(cluster: ClusterSet) -> None:
    other = next(one for one in cluster.primaries if not serves_the_first(one))
    with pytest.raises(ConfigError, match=r"redis\+cluster"):
        await open_bus(other.url)


async def test_another_number_of_shards_is_refused(cluster: ClusterSet) -> None:
    owner = next(one for one in cluster.primaries if serves_the_first(one))
    owner.ask("HSET", ShardKeys(0).meta, "shards", "8")
    with pytest.raises(ConfigError, match="shards = 8"):
        await open_bus(cluster.url)


def serves_the_first(server: ValkeyProcess) -> bool:
    """Whether this one serves the first shard."""
    rows = server.ask("CLUSTER", "SLOTS")
    return any(row[0] <= slot_of(0) <= row[1] and row[2][1] == server.port for row in rows)
