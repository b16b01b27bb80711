"""The primary dies under load: with Sentinels, in a Cluster with replicas, in a Cluster without.

Messages are enqueued, claimed and committed all the while. What was acknowledged and not lost by
replication itself must be answered, and every message at most once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.client import slot_of
from gateway.bus.keys import CLUSTER_SHARDS, shard_number
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Claim, Verdict
from tests.parts.bus_samples import message, reply
from tests.parts.databases import INSTALLATION
from tests.parts.redis_sets import ClusterSet, SentinelSet, wait_until
from tests.parts.waiting import until, until_found

QUICK_MS = 1500
LANES = [SessionKey("telegram", str(user)) for user in range(48)]
ROUNDS = 6


class Town:
    """People who write and a worker who answers, each message with a reply of its own, until all is done."""

    def __init__(self, bus: RedisBus) -> None:
        self.bus = bus
        self.acknowledged: set[str] = set()
        self.committed: Counter[str] = Counter()
        self.lost = asyncio.Event()

    async def write(self, lane: SessionKey) -> None:
        """In order; a message is repeated until the bus has it, as a platform does."""
        for number in range(ROUNDS):
            spoken = message(number, lane)
            while spoken.id not in self.acknowledged:
                try:
                    admission = await self.bus.intake.enqueue(spoken)
                except BusUnavailable:
                    await asyncio.sleep(0.05)
                    continue
                assert admission.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE)
                self.acknowledged.add(spoken.id)
            await asyncio.sleep(0.05)

    async def answer(self) -> None:
        """Claim and commit for ever. What a commit says decides, as the store decides in the product."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self.claim_once(group)

    async def claim_once(self, group: asyncio.TaskGroup) -> None:
        try:
            batch = await self.bus.lanes.claim("w1", lanes_max=64, messages_max=5, attempts_max=99, wait_s=0.5)
            for claim in batch.claims:  # each by itself, as a worker runs its turns: one may wait for its server
                group.create_task(self.commit(claim))
        except BusUnavailable:
            await asyncio.sleep(0.05)

    async def commit(self, claim: Claim) -> None:
        """A commit may have been made whose answer was lost. Then it is refused the second time, and the empty lane
        tells; what was lost would be missing among the published replies."""
        answers = [reply(one.id.rpartition(":")[2], claim.key) for one in claim.messages]
        may_be_done = False
        while True:
            try:
                is_done = await self.bus.lanes.commit(claim, handled=len(claim.messages), replies=answers)
                if is_done or (may_be_done and await self.bus.lanes.depth(claim.key) == (0, False)):
                    self.committed.update(one.id for one in claim.messages)
                    return
                if not may_be_done:
                    return
            except BusUnavailable:
                may_be_done = True
            await asyncio.sleep(0.05)

    async def is_idle(self) -> bool:
        """Tell whether no message waits and none is in work. A commit may be in force although its caller heard no: its
        answer was lost, and the client's own repetition was refused."""
        return all([await self.bus.lanes.depth(lane) == (0, False) for lane in LANES])

    async def published(self) -> Counter[str]:
        """Every reply on the bus, by id."""
        found: Counter[str] = Counter()
        while True:
            try:
                pending = await self.bus.deliveries.replies("telegram", "c1", count=500, wait_s=1)
            except BusUnavailable:
                continue
            if not pending:
                return found
            found.update(one.reply.id for one in pending)


def replies_to(acknowledged: set[str]) -> set[str]:
    """The reply ids that `Town.commit` gives to these messages."""
    words = [identity.split(":") for identity in acknowledged]
    return {reply(number, SessionKey("telegram", user)).id for _, _, user, number in words}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[SentinelSet]:
    servers = SentinelSet(tmp_path, down_after_ms=QUICK_MS)
    servers.start()
    yield servers
    servers.stop()


async def run_through(town: Town, fault: asyncio.Task[None]) -> None:
    """All people write while the fault happens; then the worker finishes what is there."""
    answering = asyncio.create_task(town.answer())
    async with town.bus.heartbeat("w1", on_cancel=lambda cancel: None, on_lost=town.lost.set):
        keeping = asyncio.create_task(keep_registered(town))
        await asyncio.gather(*[town.write(lane) for lane in LANES], fault)
        await until_found(town.is_idle)
        keeping.cancel()
    answering.cancel()
    await asyncio.wait({answering, keeping})


async def keep_registered(town: Town) -> None:
    """A worker whose lease was forgotten registers again."""
    while True:
        await town.lost.wait()
        town.lost.clear()
        try:
            await town.bus.lanes.register("w1", lease_ttl_s=3)
        except BusUnavailable:
            town.lost.set()
            await asyncio.sleep(0.2)


@pytest.mark.long
async def test_a_dying_primary_loses_nothing_that_a_replica_had(watched: SentinelSet) -> None:
    """With `wait_replicas` "received" means that the replica has it, so the failover loses none."""
    bus = await open_bus(watched.url, installation=INSTALLATION, wait_replicas=1, user_turns_max=9)
    await bus.lanes.register("w1", lease_ttl_s=3)
    town = Town(bus)
    dead = watched.primary

    async def fault() -> None:
        await until(lambda: len(town.acknowledged) >= len(LANES))
        await asyncio.to_thread(dead.kill)
        await asyncio.to_thread(watched.await_successor, dead)
        # Until somebody copies again nobody is told "received"; the old primary comes back as a replica.
        await asyncio.to_thread(dead.start)

    await run_through(town, asyncio.create_task(fault()))
    assert len(town.acknowledged) == len(LANES) * ROUNDS
    published = await town.published()
    assert set(published) == replies_to(town.acknowledged)
    assert set(published.values()) == {1}
    await bus.close()


async def test_without_enough_replicas_nobody_is_told_received(watched: SentinelSet) -> None:
    bus = await open_bus(watched.url, installation=INSTALLATION, wait_replicas=1)
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.ACCEPTED
    replica = watched.replica
    replica.pause()
    with pytest.raises(BusUnavailable, match="0 of 1 replicas"):
        await bus.intake.enqueue(message(2))
    replica.resume()
    await asyncio.to_thread(wait_until, lambda: watched.replicas() == 1, "the replica")
    while True:
        try:
            assert (await bus.intake.enqueue(message(2))).verdict is Verdict.DUPLICATE
            break
        except BusUnavailable:
            continue
    await bus.close()


@pytest.mark.parametrize("has_replicas", [True, False])
@pytest.mark.long_on("False")
async def test_a_dying_primary_of_a_cluster_stops_its_own_shards_only(tmp_path: Path, has_replicas: bool) -> None:
    """With a replica they go on soon; without one they stand still until it is back, and the others go on."""
    cluster = ClusterSet(tmp_path, replicas=has_replicas, node_timeout_ms=QUICK_MS)
    await asyncio.to_thread(cluster.start)
    bus = await open_bus(cluster.url, installation=INSTALLATION, wait_replicas=int(has_replicas), user_turns_max=9)
    await bus.lanes.register("w1", lease_ttl_s=3)
    town = Town(bus)
    dead = cluster.primaries[0]
    others = {lane for lane in LANES if slot_of(shard_number(lane, CLUSTER_SHARDS)) > 5460}
    ids_of_others = {message(number, lane).id for lane in others for number in range(ROUNDS)}

    async def fault() -> None:
        await until(lambda: len(town.acknowledged) >= len(LANES))
        heir = await asyncio.to_thread(cluster.replica_of, dead) if has_replicas else None
        await asyncio.to_thread(dead.kill)
        if heir is None:
            await until(lambda: ids_of_others <= set(town.committed))
            assert len(town.acknowledged) < len(LANES) * ROUNDS, "the dead primary's lanes went on"
        else:
            is_heir = lambda: heir.ask("INFO", "replication")["role"] == "master"  # noqa: E731
            await asyncio.to_thread(wait_until, is_heir, "a new primary")
        await asyncio.to_thread(dead.start)

    try:
        await run_through(town, asyncio.create_task(fault()))
        published = await town.published()
        assert set(published) == replies_to(town.acknowledged)
        assert set(published.values()) == {1}
    finally:
        await bus.close()
        cluster.stop()
