"""Deliveries: published once, handed out until finished, taken over from the dead."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.heartbeat import ProcessName
from gateway.contracts.errors import BusError
from gateway.contracts.messages import Activity, DeliveryRecord, DeliveryState, literal_text
from gateway.contracts.ports import PendingReply, TokenWish
from gateway.limits import LEDGER_TTL_S, REPLY_ENVELOPE_BYTES_MAX
from tests.parts.bus_samples import ANNA, address, receipt, reply
from tests.parts.waiting import PATIENCE_S

READ_AND_HANG = """
import asyncio, sys
from gateway.bus.bus import open_bus
from gateway.bus.heartbeat import ProcessName
from gateway.contracts.messages import DeliveryRecord, DeliveryState

async def main():
    process = ProcessName(sys.argv[2], 1, 1) if len(sys.argv) > 2 else None
    bus = await open_bus(sys.argv[1], process=process)
    assert await bus.deliveries.hold("poller", "us", ttl_s=60)
    for pending in await bus.deliveries.replies("telegram", "channels", count=10, wait_s=5):
        row = DeliveryRecord(pending.reply.id, DeliveryState.SENDING, attempt=1)
        assert await bus.deliveries.record("telegram", pending.entry_id, row)
    print("read", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def replies(bus: RedisBus, consumer: str = "c1", *, wait_s: float = 0) -> Sequence[PendingReply]:
    return await bus.deliveries.replies("telegram", consumer, count=10, wait_s=wait_s)


async def test_a_reply_is_handed_out_once_and_gone_when_finished(bus: RedisBus, raw_redis: Any) -> None:
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    assert pending.reply == reply(1)
    published_at_ms = int(pending.entry_id.partition("-")[0])
    assert pending.record == DeliveryRecord(reply(1).id, DeliveryState.PENDING, published_at_ms=published_at_ms)
    assert await replies(bus) == []
    await bus.deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    assert raw_redis.xlen("{q0}:out:telegram") == 0
    assert (await bus.operator.figures()).outbound_pending == {"telegram": 0}


async def test_what_a_sleeping_process_was_given_comes_first(bus: RedisBus, valkey_url: str) -> None:
    """The server serves the read that a paused process left open, also after another process has taken over."""
    asleep = await open_bus(valkey_url, process=ProcessName("elsewhere", 1, 1))
    try:
        assert await replies(bus) == []
        await bus.deliveries.publish([reply(1)])
        assert [pending.reply for pending in await replies(asleep, "asleep")] == [reply(1)]
        assert not await bus.deliveries.has_taken_all("telegram", reply(1).key)
        await bus.deliveries.publish([reply(2)])
        assert [pending.reply for pending in await replies(bus)] == [reply(1), reply(2)]
    finally:
        await asleep.close()


async def test_a_process_knows_whether_it_has_all_that_is_published(bus: RedisBus) -> None:
    """Else an earlier answer may wait."""
    assert await bus.deliveries.has_taken_all("telegram", reply(1).key)
    await bus.deliveries.publish([reply(1), reply(2)])
    assert not await bus.deliveries.has_taken_all("telegram", reply(1).key)
    first, second = await replies(bus)
    assert await bus.deliveries.has_taken_all("telegram", reply(1).key)
    await bus.deliveries.finish("telegram", first.entry_id, receipt(reply(1)))
    await bus.deliveries.finish("telegram", second.entry_id, receipt(reply(2)))
    assert await bus.deliveries.has_taken_all("telegram", reply(1).key)


async def test_replies_keep_their_order(bus: RedisBus) -> None:
    sent = [reply(number) for number in range(25)]
    await bus.deliveries.publish(sent)
    seen: list[PendingReply] = []
    while len(seen) < 25:
        seen.extend(await replies(bus, wait_s=5))
    assert [pending.reply for pending in seen] == sent


async def test_waiting_for_replies_ends_when_one_comes(bus: RedisBus) -> None:
    waiting = asyncio.create_task(replies(bus, wait_s=60))
    await bus.deliveries.publish([reply(1)])
    assert [pending.reply for pending in await asyncio.wait_for(waiting, PATIENCE_S)] == [reply(1)]


async def test_a_channel_sees_its_own_replies_only(bus: RedisBus) -> None:
    elsewhere = replace(reply(1), address=replace(address(), channel="slack.T1"))
    await bus.deliveries.publish([elsewhere])
    assert await replies(bus) == []
    assert [found.reply for found in await bus.deliveries.replies("slack.T1", "c1", count=1, wait_s=0)] == [elsewhere]


async def test_a_reply_whose_delivery_began_is_not_published_again(bus: RedisBus, raw_redis: Any) -> None:
    """The ledger outlives the digests of published ids: a late sweeper changes nothing."""
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    await bus.deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    raw_redis.delete(*raw_redis.keys("{q0}:ddo:*"))
    await bus.deliveries.publish([reply(1)])
    assert raw_redis.xlen("{q0}:out:telegram") == 0


async def test_an_oversized_reply_is_refused_before_anything_is_sent(bus: RedisBus) -> None:
    with pytest.raises(BusError, match="limit"):
        await bus.deliveries.publish([reply(1, text="x" * REPLY_ENVELOPE_BYTES_MAX)])


async def test_the_ledger_says_how_far_a_reply_came(bus: RedisBus, raw_redis: Any) -> None:
    """Every field is as it was written."""
    row = DeliveryRecord(
        reply(1).id,
        DeliveryState.SENDING,
        attempt=2,
        next_chunk=1,
        chunks=3,
        platform_ids=("10", "11"),
        updated_at_ms=1_700_000_000_000,
        reason=literal_text("timed out"),
        placeholder="12",
        marked=(0,),
        begun_at_ms=1_699_000_000_000,
    )
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    row = replace(row, published_at_ms=pending.record.published_at_ms)
    assert await bus.deliveries.record("telegram", pending.entry_id, row)
    assert await bus.deliveries.delivered(reply(1).key, row.reply_id) == row
    assert 0 < raw_redis.ttl(f"{{q0}}:dlv:{row.reply_id}") <= LEDGER_TTL_S


async def test_the_end_of_a_delivery_is_told_once(bus: RedisBus) -> None:
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    for _ in range(2):
        await bus.deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    await bus.lanes.register("w1", lease_ttl_s=60)
    ((entry_id, told),) = await bus.deliveries.take_receipts("w1", count=10, wait_s=0)
    assert told == receipt(reply(1))
    assert await bus.deliveries.take_receipts("w1", count=10, wait_s=0) == []
    await bus.deliveries.finish_receipts([entry_id])
    assert await bus.deliveries.take_receipts("w1", count=10, wait_s=0) == []


async def test_receipts_of_a_dead_worker_go_to_a_living_one(bus: RedisBus) -> None:
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    await bus.deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.lanes.register("w2", lease_ttl_s=60)
    assert len(await bus.deliveries.take_receipts("w1", count=10, wait_s=0)) == 1
    await bus.lanes.drain("w1")
    ((_, told),) = await bus.deliveries.take_receipts("w2", count=10, wait_s=0)
    assert told == receipt(reply(1))


async def test_an_unreadable_reply_goes_to_the_dead_letters(bus: RedisBus, raw_redis: Any) -> None:
    raw_redis.xadd("{q0}:out:telegram", {"e": b"not json"})
    await bus.deliveries.publish([reply(1)])
    assert [pending.reply for pending in await replies(bus)] == [reply(1)]
    ((_, letter),) = raw_redis.xrange("{q0}:dlq")
    assert (letter[b"e"], letter[b"reason"]) == (b"not json", b"unreadable")


async def test_another_consumer_name_takes_over_what_the_first_left(bus: RedisBus) -> None:
    """A delivery loop that was restarted within its process goes on where the old one stopped."""
    await bus.deliveries.publish([reply(1)])
    await replies(bus, "first")
    assert [pending.reply for pending in await replies(bus, "second")] == [reply(1)]


async def test_a_cancelled_read_loses_nothing(bus: RedisBus) -> None:
    """What the server gave to a read that nobody awaits any more is given again."""
    await replies(bus)
    for number in range(20):
        reading = asyncio.create_task(replies(bus, wait_s=5))
        await asyncio.sleep(0)
        await bus.deliveries.publish([reply(number)])
        reading.cancel()
        found = await asyncio.gather(reading, return_exceptions=True)
        if isinstance(found[0], BaseException):
            assert [pending.reply for pending in await replies(bus, wait_s=5)] == [reply(number)]


async def test_who_lost_a_reply_to_another_process_may_write_nothing_about_it(bus: RedisBus, valkey_url: str) -> None:
    """A process that was stopped, or cut off, learns before its next call that its successor has the reply."""
    successor = await open_bus(valkey_url, process=ProcessName("elsewhere", 1, 1))
    await bus.deliveries.publish([reply(1)])
    (pending,) = await replies(bus)
    row = replace(pending.record, state=DeliveryState.SENDING)
    assert await bus.deliveries.record("telegram", pending.entry_id, row)
    (taken,) = await replies(successor)
    assert not await bus.deliveries.record("telegram", pending.entry_id, replace(row, attempt=7))
    assert await successor.deliveries.record("telegram", taken.entry_id, replace(row, attempt=1))
    assert (await bus.deliveries.delivered(reply(1).key, reply(1).id)).attempt == 1
    await successor.close()


async def test_what_was_put_back_is_handed_out_again(bus: RedisBus) -> None:
    """The lease was lost and came back: nobody works on the replies any more."""
    await bus.deliveries.publish([reply(1)])
    await replies(bus)
    bus.deliveries.put_back("telegram")
    assert [pending.reply for pending in await replies(bus)] == [reply(1)]


async def test_after_a_kill_the_restarted_process_has_its_predecessors_replies_at_once(
    bus: RedisBus, valkey_url: str
) -> None:
    """No lease has to end first: process id and start time say that the old holder is dead."""
    await bus.deliveries.publish([reply(1), reply(2)])
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READ_AND_HANG, valkey_url, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"read\n"
    assert not await bus.deliveries.hold("poller", "us", ttl_s=60)
    child.kill()
    await child.wait()
    assert await bus.deliveries.hold("poller", "us", ttl_s=60)
    successor = await open_bus(valkey_url)
    found = await successor.deliveries.replies("telegram", "channels", count=10, wait_s=0)
    assert [pending.reply for pending in found] == [reply(1), reply(2)]
    for number in (1, 2):
        record = await bus.deliveries.delivered(reply(number).key, reply(number).id)
        assert record.state is DeliveryState.SENDING
    await successor.close()


async def test_activities_reach_whoever_listens(bus: RedisBus) -> None:
    heard = bus.deliveries.activities("telegram")
    listening = asyncio.ensure_future(anext(heard))
    activity = Activity(address(ANNA), "turn-1", 5.0)
    while not listening.done():  # pub/sub keeps nothing: repeat until the subscription stands
        await bus.deliveries.show_activity(activity)
        await asyncio.wait({listening}, timeout=0.01)
    assert listening.result() == activity


async def test_a_named_lease_has_one_holder(bus: RedisBus) -> None:
    hold = bus.deliveries.hold
    assert await hold("telegram:bot", "a", ttl_s=60)
    assert await hold("telegram:bot", "a", ttl_s=60)
    assert not await hold("telegram:bot", "b", ttl_s=60)
    await bus.deliveries.release("telegram:bot", "b")
    assert not await hold("telegram:bot", "b", ttl_s=60)
    await bus.deliveries.release("telegram:bot", "a")
    assert await hold("telegram:bot", "b", ttl_s=60)


async def test_a_named_lease_ends_by_itself(bus: RedisBus, raw_redis: Any) -> None:
    await bus.deliveries.hold("telegram:bot", "a", ttl_s=60)
    assert 50 < raw_redis.ttl("{q0}:hold:telegram:bot") <= 60


async def test_a_bucket_lets_a_burst_pass_and_then_makes_wait(bus: RedisBus) -> None:
    """A wait spends nothing: asking again and again does not push the moment away."""
    take, chat = bus.deliveries.take_send_tokens, TokenWish("chat", per_s=0.01, burst=3)
    assert [await take("bot", [chat]) for _ in range(3)] == [0, 0, 0]
    waits = [await take("bot", [chat]) for _ in range(5)]
    assert all(90 < wait <= 100 for wait in waits)
    assert await take("bot", [replace(chat, bucket="other chat")]) == 0
    assert await take("other bot", [chat]) == 0


async def test_a_send_spends_from_all_its_buckets_or_from_none(bus: RedisBus) -> None:
    """Whoever waits for the one takes nothing of the other."""
    take = bus.deliveries.take_send_tokens
    chat, whole = TokenWish("chat", per_s=0.01, burst=1), TokenWish("bot", per_s=0.02, burst=2)
    assert await take("bot", [chat, whole]) == 0
    assert all(90 < wait <= 100 for wait in [await take("bot", [chat, whole]) for _ in range(3)])
    assert await take("bot", [replace(chat, bucket="other chat"), whole]) == 0
    assert 40 < await take("bot", [replace(chat, bucket="third chat"), whole]) <= 50


async def test_what_may_be_left_out_leaves_tokens_for_what_may_not(bus: RedisBus) -> None:
    take, answer = bus.deliveries.take_send_tokens, TokenWish("chat", per_s=0.01, burst=4)
    spare = replace(answer, spare=2)
    assert [await take("bot", [spare]) for _ in range(2)] == [0, 0]
    assert await take("bot", [spare]) > 90
    assert [await take("bot", [answer]) for _ in range(2)] == [0, 0]


async def test_a_paused_bucket_makes_everybody_wait(bus: RedisBus, valkey_url: str) -> None:
    other = await open_bus(valkey_url)
    await bus.deliveries.pause_bucket("bot", "chat", for_s=30)
    await bus.deliveries.pause_bucket("bot", "chat", for_s=1)
    chat, whole = TokenWish("chat", per_s=30, burst=30), TokenWish("bot", per_s=30, burst=30)
    assert 29 < await other.deliveries.take_send_tokens("bot", [whole, chat]) <= 30
    await other.close()
