"""A bus whose primary the Sentinels name: after every change of it each room finds the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.server import Server
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.contracts.messages import Activity, InboundMessage
from gateway.contracts.ports import Admission, PendingReply, Verdict
from tests.parts.bus_samples import ANNA, BORIS, address, control, message, reply
from tests.parts.databases import INSTALLATION
from tests.parts.redis_sets import SentinelSet
from tests.parts.waiting import PATIENCE_S


@pytest.fixture
def watched(sentinel_set: SentinelSet) -> SentinelSet:
    sentinel_set.primary.ask("FLUSHALL")
    return sentinel_set


async def enqueue(bus: RedisBus, what: InboundMessage) -> Admission:
    """Until the bus takes it, as an adapter does."""
    while True:
        try:
            return await bus.intake.enqueue(what)
        except BusUnavailable:
            continue


async def test_every_room_finds_the_new_primary(watched: SentinelSet) -> None:
    bus = await open_bus(watched.url, installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=60)
    await enqueue(bus, message(1))
    heard = bus.deliveries.activities("telegram")
    listening = asyncio.ensure_future(anext(heard))
    cancelled = asyncio.Event()
    async with bus.heartbeat("w1", on_cancel=lambda lane: cancelled.set(), on_lost=cancelled.clear):
        await asyncio.to_thread(watched.fail_over)
        assert (await enqueue(bus, message(1))).verdict is Verdict.DUPLICATE
        assert (await enqueue(bus, message(1, BORIS))).verdict is Verdict.ACCEPTED
        batch = await bus.lanes.claim("w1", lanes_max=9, messages_max=9, attempts_max=4)
        anna, boris = batch.claims
        assert await bus.lanes.commit(boris, handled=1, replies=[reply(1, BORIS)])
        assert [found.reply for found in await until_replies(bus)] == [reply(1, BORIS)]
        while not listening.done():
            await bus.deliveries.show_activity(Activity(address(ANNA), "turn-1", 5.0))
            await asyncio.wait({listening}, timeout=0.05)
        await bus.intake.request_control(control(1))
        async with asyncio.timeout(PATIENCE_S):
            await cancelled.wait()
        assert anna.key == ANNA
    await bus.close()


async def until_replies(bus: RedisBus) -> Sequence[PendingReply]:
    while True:
        try:
            if found := await bus.deliveries.replies("telegram", "c1", count=9, wait_s=1):
                return found
        except BusUnavailable:
            continue


async def test_a_service_that_nobody_watches_is_said_to_be_away(watched: SentinelSet) -> None:
    with pytest.raises(BusUnavailable, match="name no primary"):
        await open_bus(watched.url.replace("/spine", "/other"))


async def test_a_wrong_password_of_the_servers_is_the_operators_business(watched: SentinelSet) -> None:
    with pytest.raises(ConfigError, match="check user, password"):
        await open_bus(watched.url.replace("://", "://nobody:wrong-secret@"))


async def test_the_login_of_the_sentinels_is_another_than_that_of_the_servers(watched: SentinelSet) -> None:
    """A Sentinel that asks for a password gets the one meant for it, in commands and in the heartbeat."""
    for sentinel in watched.sentinels:
        sentinel.ask("ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "allchannels")
        sentinel.ask("ACL", "SETUSER", "default", "off")
    guarded = f"{watched.url}?sentinel_username=watcher&sentinel_password=secret"
    try:
        bus = await open_bus(guarded, installation=INSTALLATION)
        await bus.operator.ping()
        await bus.close()
        pulse = Server.at(guarded).heartbeat_client()
        assert await asyncio.to_thread(pulse.ping)
        pulse.close()
        with pytest.raises((BusUnavailable, ConfigError)) as caught:
            await open_bus(watched.url + "?sentinel_password=wrong-secret")
        assert "wrong-secret" not in str(caught.value)
    finally:
        for sentinel in watched.sentinels:
            sentinel.ask("ACL", "SETUSER", "default", "on", login=("watcher", "secret"))
