"""Whose a bus is: what two Trivets on one server never hear of each other, who is refused, what an upgrade keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.deliveries import ledger_fields
from gateway.bus.keys import ShardKeys
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.contracts.messages import Activity, ControlKind, ControlRequest, DeliveryRecord, DeliveryState, Draft
from gateway.store import Store, open_store
from gateway.store.migrations import migrate
from tests.parts.bus_samples import ANNA, address, control, message, receipt, reply
from tests.parts.claiming import claim_one
from tests.parts.databases import INSTALLATION, MakeUrl
from tests.parts.waiting import until

OTHER = "ANOTHERSHOUS"
KEYS = ShardKeys(0)


@pytest.fixture
async def other(valkey_url: str) -> AsyncIterator[RedisBus]:
    """The bus of another Trivet, in another database of the same server."""
    opened = await open_bus(f"{valkey_url}?db=1", installation=OTHER)
    yield opened
    await opened.close()


async def heard_first(listening: Any, channel: str, raw_redis: Any, speak: Callable[[], Awaitable[object]]) -> Any:
    """What a listener of this pub/sub channel hears first of all that is said in `speak`."""
    async with aclosing(listening):
        hearing = asyncio.ensure_future(anext(listening))
        await until(lambda: raw_redis.pubsub_numsub(channel)[0][1])
        await speak()
        return await hearing


async def test_what_one_says_by_pub_sub_the_other_does_not_hear(bus: RedisBus, other: RedisBus, raw_redis: Any) -> None:
    """The same channel, the same person: each hears the words of his own house alone."""

    async def show(what: Callable[[RedisBus], Awaitable[None]]) -> None:
        await what(other)
        await what(bus)

    def activity(each: RedisBus) -> Awaitable[None]:
        return each.deliveries.show_activity(Activity(address(ANNA), each.names.installation, 5.0))

    def draft(each: RedisBus) -> Awaitable[None]:
        shown = reply(1)
        return each.deliveries.show_draft(Draft(shown.address, ANNA, each.names.installation, shown.id, shown.text))

    heard = await heard_first(
        bus.deliveries.activities("telegram"), bus.names.activity("telegram"), raw_redis, lambda: show(activity)
    )
    assert heard.turn_id == INSTALLATION
    heard = await heard_first(
        bus.deliveries.drafts("telegram"), bus.names.draft("telegram"), raw_redis, lambda: show(draft)
    )
    assert heard.turn_id == INSTALLATION


async def test_every_name_that_the_server_hears_carries_the_installation(bus: RedisBus, raw_redis: Any) -> None:
    """Whatever the scripts publish in the life of a message, a command and a reply."""
    with raw_redis.pubsub(ignore_subscribe_messages=True) as everything:
        everything.psubscribe("*")
        assert everything.get_message(timeout=5) is None
        await bus.lanes.register("w1", lease_ttl_s=60)
        await bus.intake.enqueue(message(1))
        claim = await claim_one(bus)
        await bus.intake.request_control(control(2))
        ((entry, _),) = [found async for found in taken(bus.control.requests("w1"), 1)]
        await bus.control.finish(entry, reply(2))
        await bus.lanes.commit(claim, handled=1, replies=[reply(1)])
        await bus.deliveries.publish([reply(3)])
        for pending in await bus.deliveries.replies("telegram", "c", count=10, wait_s=0):
            await bus.deliveries.finish("telegram", pending.entry_id, receipt(pending.reply))
        names = set()
        while said := everything.get_message(timeout=0.5):
            names.add(said["channel"].decode())
    told = {f"{INSTALLATION}:{key}" for key in (KEYS.wake, KEYS.control, KEYS.receipts, KEYS.outbound("telegram"))}
    assert names == told | {f"{INSTALLATION}:{KEYS.cancels('w1')}"}


async def taken(source: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    """The first few of what would go on for ever."""
    for _ in range(count):
        yield await anext(source)


# --- whose it is


async def test_the_bus_of_another_is_refused(valkey_url: str) -> None:
    """Both are named, and what to do."""
    with pytest.raises(
        ConfigError, match=f"belongs to the installation {INSTALLATION}, the database to {OTHER}.*--take"
    ):
        await open_bus(valkey_url, installation=OTHER)


async def test_of_many_that_begin_at_once_one_has_the_bus(valkey_url: str, raw_redis: Any) -> None:
    """And all of its roles, those without a database among them."""
    raw_redis.flushall()
    wishes: Sequence[str | None] = [INSTALLATION, OTHER, None] * 5
    opened = await asyncio.gather(*[open_bus(valkey_url, installation=wish) for wish in wishes], return_exceptions=True)
    owner = raw_redis.hget(KEYS.meta, "installation").decode()
    assert owner in (INSTALLATION, OTHER)
    for wish, found in zip(wishes, opened, strict=True):
        if wish in (owner, None):
            assert isinstance(found, RedisBus)
            assert found.names.installation == owner
            await found.close()
        else:
            assert isinstance(found, ConfigError)


async def test_whoever_has_no_database_waits_to_be_told(
    valkey_url: str, raw_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For so long, then it says who would tell."""
    raw_redis.flushall()
    waiting = asyncio.create_task(open_bus(valkey_url))
    await until(lambda: raw_redis.hexists(KEYS.meta, "layout"))
    await (await open_bus(valkey_url, installation=OTHER)).close()
    bus = await waiting
    assert bus.names.installation == OTHER
    await bus.close()
    raw_redis.flushall()
    monkeypatch.setattr("gateway.bus.inspection.INSTALLATION_WAIT_S", 0.0)
    with pytest.raises(BusUnavailable, match="trivet agent"):
        await open_bus(valkey_url)


async def test_an_emptied_bus_is_told_again(bus: RedisBus, valkey_url: str, raw_redis: Any) -> None:
    """By whoever works on it; and who finds that it is another's by then ends."""
    raw_redis.flushall()
    await bus.keep_named()
    again = await open_bus(valkey_url)
    assert again.names == bus.names
    await again.give_to(OTHER)
    await again.close()
    with pytest.raises(ConfigError, match=f"belongs to the installation {OTHER}"):
        await bus.keep_named()


# --- consumer groups


def groups(raw_redis: Any, stream: str) -> list[str]:
    """The names of the groups that read a stream."""
    return [row["name"].decode() for row in raw_redis.xinfo_groups(stream)]


async def test_an_upgrade_takes_over_what_was_begun_in_a_group_of_another_name(bus: RedisBus, raw_redis: Any) -> None:
    """Of an older release, whose groups carried no installation: what it had finished is over, what it had begun or
    never seen is there, in order, and a send that it was at is known as one."""
    stream, receipts = KEYS.outbound("telegram"), KEYS.receipts
    await bus.deliveries.publish([reply(number) for number in (1, 2, 3)])
    raw_redis.xgroup_create(stream, "channel", "0")
    ((_, ((first, _), (second, _))),) = raw_redis.xreadgroup("channel", "old@x.1.1", {stream: ">"}, count=2)
    raw_redis.xack(stream, "channel", first)
    raw_redis.xdel(stream, first)
    sending = DeliveryRecord(reply(2).id, DeliveryState.SENDING, 1)
    raw_redis.hset(KEYS.ledger(reply(2).id), items=list(ledger_fields(sending)))
    raw_redis.expire(KEYS.ledger(reply(2).id), 60)

    found = await bus.deliveries.replies("telegram", "c", count=10, wait_s=0)
    assert [pending.reply.id for pending in found] == [reply(2).id, reply(3).id]
    known = [await bus.deliveries.delivered(pending.reply.key, pending.reply.id) for pending in found]
    assert [record.state for record in known] == [DeliveryState.SENDING, DeliveryState.PENDING]
    assert found[0].entry_id == second.decode()
    assert groups(raw_redis, stream) == [f"{INSTALLATION}:channels"]

    raw_redis.xgroup_create(receipts, "agents", "0", mkstream=True)
    raw_redis.xgroup_create(KEYS.control, "agents", "0", mkstream=True)
    await bus.intake.request_control(ControlRequest(ControlKind.STATUS, message(1)))
    await bus.intake.request_control(ControlRequest(ControlKind.STATUS, message(2)))
    raw_redis.xreadgroup("agents", "old:1:abc", {KEYS.control: ">"}, count=1)
    for pending in found:
        await bus.deliveries.finish("telegram", pending.entry_id, receipt(pending.reply))
    raw_redis.xreadgroup("agents", "old:1:abc", {receipts: ">"}, count=1)

    await bus.lanes.register("new", lease_ttl_s=60)
    commands = [request.message.id async for _, request in taken(bus.control.requests("new"), 2)]
    assert commands == [message(1).id, message(2).id]
    ended = await bus.deliveries.take_receipts("new", count=10, wait_s=0)
    assert [end.record.reply_id for _, end in ended] == [reply(2).id, reply(3).id]
    await bus.deliveries.finish_receipts([entry for entry, _ in ended])
    assert (raw_redis.xlen(stream), raw_redis.xlen(receipts)) == (0, 0)
    assert groups(raw_redis, KEYS.control) == groups(raw_redis, receipts) == [f"{INSTALLATION}:agents"]


async def test_a_bus_that_changes_hands_loses_nothing(bus: RedisBus, valkey_url: str) -> None:
    """What was begun under its old name begins anew under the new one."""
    await bus.deliveries.publish([reply(1)])
    assert await bus.deliveries.replies("telegram", "c", count=10, wait_s=0)
    await bus.give_to(OTHER)
    heir = await open_bus(valkey_url, installation=OTHER)
    (pending,) = await heir.deliveries.replies("telegram", "c", count=10, wait_s=0)
    assert pending.reply == reply(1)
    record = DeliveryRecord(reply(1).id, DeliveryState.SENDING, 1)
    assert await heir.deliveries.record("telegram", pending.entry_id, record)
    await heir.deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    await heir.close()


# --- in SQL


async def test_a_database_is_named_once_by_whoever_comes_first(empty_database: MakeUrl) -> None:
    """However many come at once; and it stays so."""
    url = await empty_database()
    await migrate(url)
    stores = [open_store(url) for _ in range(6)]
    assert await stores[0].known_installation() is None
    names = await asyncio.gather(*[store.installation() for store in stores])
    assert len(set(names)) == 1
    assert await stores[0].known_installation() == names[0]
    assert len(names[0]) == 12
    for store in stores:
        await store.close()


async def test_a_copy_may_have_a_name_of_its_own(store: Store) -> None:
    before = await store.installation()
    renewed = await store.renew_installation()
    assert renewed != before
    assert await store.installation() == renewed
