"""What befalls one server: restart, kill -9, a pause, a full disk, full memory.

Through all of it: intake raises `BusUnavailable` instead of saying "received", nothing acknowledged is
lost, a worker that was away too long changes nothing, and afterwards everything goes on by itself.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Cancel, Claim, Verdict
from tests.parts.bus_samples import ANNA, message, reply
from tests.parts.databases import INSTALLATION
from tests.parts.leases import reap
from tests.parts.ports import free_port
from tests.parts.redis_sets import DURABLE, ValkeyProcess, end_all
from tests.parts.waiting import PATIENCE_S, until


class Servers:
    """Makes servers that end with the test."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: list[ValkeyProcess] = []

    def make(self, options: Mapping[str, str] | None = None) -> ValkeyProcess:
        port = free_port()
        server = ValkeyProcess(self._home / str(port), port, {**DURABLE, **(options or {})})
        self._made.append(server)
        return server

    def end(self) -> None:
        end_all(self._made)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.end()


def forbid_large_files() -> None:
    """In the server, before it starts: a write beyond 60 kB fails, as on a full disk, and is no reason to die."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))


async def enqueue_until_accepted(bus: RedisBus, number: int, key: SessionKey = ANNA) -> Verdict:
    """As a platform that repeats what was not acknowledged."""
    while True:
        try:
            return (await bus.intake.enqueue(message(number, key))).verdict
        except BusUnavailable:
            await asyncio.sleep(0.05)


async def claim_all(bus: RedisBus, worker: str = "w1") -> list[Claim]:
    batch = await bus.lanes.claim(worker, lanes_max=100, messages_max=1000, attempts_max=9)
    return list(batch.claims)


@pytest.mark.parametrize("appendfsync", ["always", "no"])
async def test_kill_9_under_load_loses_nothing_acknowledged(servers: Servers, appendfsync: str) -> None:
    """The process dies, not the machine: what was written is in the page cache, whether it was synced or not."""
    server = servers.make({"appendfsync": appendfsync})
    server.start()
    bus = await open_bus(server.url, installation=INSTALLATION, lane_messages_max=1000)
    lanes = [SessionKey("telegram", str(user)) for user in range(8)]
    acknowledged: dict[SessionKey, list[str]] = {lane: [] for lane in lanes}

    async def write(lane: SessionKey) -> None:
        for number in range(60):
            assert await enqueue_until_accepted(bus, number, lane) in (Verdict.ACCEPTED, Verdict.DUPLICATE)
            acknowledged[lane].append(message(number, lane).id)

    writing = asyncio.gather(*[write(lane) for lane in lanes])
    await until(lambda: all(len(ids) > 10 for ids in acknowledged.values()))
    server.kill()
    await asyncio.to_thread(server.start)
    await writing
    await bus.lanes.register("w1", lease_ttl_s=60)
    found = {claim.key: [one.id for one in claim.messages] for claim in await claim_all(bus)}
    assert found == acknowledged
    await bus.close()


async def test_connections_after_a_restart_are_no_more_than_before(servers: Servers) -> None:
    """Everybody comes back at once, each over the connections he had."""
    server = servers.make()
    server.start()
    buses = [await open_bus(server.url, installation=INSTALLATION) for _ in range(5)]
    for bus in buses:
        await bus.intake.enqueue(message(1))
        await bus.operator.ping()
    server.kill()
    waiting = [asyncio.create_task(enqueue_until_accepted(bus, number)) for bus in buses for number in range(50)]
    await asyncio.to_thread(server.start)
    await asyncio.gather(*waiting)
    assert server.ask("INFO", "stats")["total_connections_received"] <= 5 * 3 + 5
    for bus in buses:
        await bus.close()


async def test_a_pause_shorter_than_the_lease_loses_no_work(servers: Servers) -> None:
    server = servers.make()
    server.start()
    bus = await open_bus(server.url, installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1))
    (claim,) = await claim_all(bus)
    server.pause()
    committing = asyncio.create_task(bus.lanes.commit(claim, handled=1, replies=[reply(1)]))
    enqueueing = asyncio.create_task(bus.intake.enqueue(message(2)))
    await asyncio.wait({committing, enqueueing}, timeout=1.5)
    assert not committing.done()
    server.resume()
    assert await committing
    assert (await enqueueing).verdict is Verdict.ACCEPTED
    await bus.close()


async def test_a_pause_longer_than_the_lease_ends_in_takeover(servers: Servers) -> None:
    """The stale worker's commit is refused; the new owner answers, once."""
    await pause_and_take_over(servers, pause_s=2.0)


@pytest.mark.long
async def test_a_pause_of_thirty_seconds(servers: Servers) -> None:
    await pause_and_take_over(servers, pause_s=30.0)


async def pause_and_take_over(servers: Servers, *, pause_s: float) -> None:
    server = servers.make()
    server.start()
    stale, fresh = (
        await open_bus(server.url, installation=INSTALLATION),
        await open_bus(server.url, installation=INSTALLATION),
    )
    await stale.lanes.register("w1", lease_ttl_s=1)
    await stale.intake.enqueue(message(1))
    (claim,) = await claim_all(stale)
    server.pause()
    refused = 0
    loop = asyncio.get_running_loop()
    resume_at = loop.time() + pause_s
    asking = asyncio.create_task(fresh.intake.enqueue(message(2)))
    while loop.time() < resume_at:
        await asyncio.wait({asking}, timeout=resume_at - loop.time())
        if asking.done():
            assert isinstance(asking.exception(), BusUnavailable), "received, by a server that stands still"
            refused += 1
            asking = asyncio.create_task(fresh.intake.enqueue(message(2)))
    server.resume()
    assert refused or pause_s < 5
    await asyncio.wait({asking})
    await enqueue_until_accepted(fresh, 2)
    await fresh.lanes.register("w2", lease_ttl_s=60)
    while not (taken := await claim_all(fresh, "w2")):
        await reap(fresh.lanes)
    assert [one.id for one in taken[0].messages] == [message(1).id, message(2).id]
    assert not await stale.lanes.commit(claim, handled=1, replies=[reply(1)])
    assert await fresh.lanes.commit(taken[0], handled=2, replies=[reply(2)])
    (pending,) = await fresh.deliveries.replies("telegram", "c1", count=9, wait_s=0)
    assert pending.reply == reply(2)
    await stale.close()
    await fresh.close()


async def test_a_full_disk_refuses_and_later_goes_on(servers: Servers) -> None:
    """The append-only file cannot grow: the server says MISCONF, we say that the bus is away, nothing is lost."""
    server = servers.make({"appendfsync": "everysec"})
    server.before = forbid_large_files
    server.start()
    bus = await open_bus(server.url, installation=INSTALLATION, lane_messages_max=1000)
    acknowledged: list[str] = []

    async def fill() -> None:
        for number in range(1000):
            await bus.intake.enqueue(message(number, text="x" * 1000))
            acknowledged.append(message(number).id)

    with pytest.raises(BusUnavailable, match="MISCONF"):
        await fill()
    assert acknowledged
    server.grant_file_size()
    await enqueue_until_accepted(bus, len(acknowledged))
    acknowledged.append(message(len(acknowledged)).id)
    # With everysec the server holds a write back while an older one is being synced: that is another fault.
    await until(lambda: server.ask("INFO", "persistence")["aof_buffer_length"] == 0)
    server.kill()
    server.before = lambda: None
    server.start()
    await bus.lanes.register("w1", lease_ttl_s=60)
    (claim,) = await claim_all(bus)
    assert [one.id for one in claim.messages] == acknowledged
    await bus.close()


async def test_full_memory_refuses_and_drains(servers: Servers) -> None:
    """What is there can be answered: taking from a full bus is how it gets room again."""
    server = servers.make({"maxmemory": "8mb", "maxmemory-policy": "noeviction"})
    server.start()
    bus = await open_bus(server.url, installation=INSTALLATION, lane_messages_max=10_000)
    await bus.lanes.register("w1", lease_ttl_s=60)

    async def fill() -> None:
        for number in range(1000):
            await bus.intake.enqueue(message(number, text="x" * 100_000))

    with pytest.raises(BusUnavailable, match="is full"):
        await fill()
    count = (await bus.operator.figures()).queued
    (claim,) = await claim_all(bus)
    assert len(claim.messages) == count
    assert await bus.lanes.commit(claim, handled=count)
    assert await enqueue_until_accepted(bus, count) is Verdict.ACCEPTED
    await bus.close()


async def test_a_heartbeat_outlives_a_restart(servers: Servers) -> None:
    """Its lease ended while the server was away: it hears of that, and beats on after registering again."""
    server = servers.make()
    server.start()
    bus = await open_bus(server.url, installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=60)
    lost = asyncio.Event()
    cancelled: list[Cancel] = []
    async with bus.heartbeat("w1", on_cancel=cancelled.append, on_lost=lost.set):
        server.ask("FLUSHALL")
        server.kill()
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
    await bus.close()
