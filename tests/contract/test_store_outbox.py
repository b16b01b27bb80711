"""Committed replies and receipts, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sqlalchemy import select

from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, DeliveryState, ReplyKind
from gateway.store import SqlStore
from gateway.store.tables import deliveries, outbox
from tests.contract.store_samples import ANN, BOB, begin, ended, outcome, reply, rows, says


async def test_a_reply_comes_back_as_it_was_committed(store: SqlStore) -> None:
    address = ReplyAddress("slack.T1", "C1/17.2", '{"channel":"C1","thread_ts":"17.2"}')
    said = replace(reply(BOB, "**hé** 中\n", id_="r1"), address=address, kind=ReplyKind.ERROR, title=CleanText("Тема"))
    await store.put_outbox([said])
    assert await store.stale_outbox(before_ms=2_001, limit=5) == [said]


async def test_the_relay_sees_old_replies_only_oldest_first_and_few_at_a_time(store: SqlStore) -> None:
    for number, made in ((1, 4_000), (2, 1_000), (3, 3_000), (4, 2_000)):
        await store.put_outbox([reply(ANN, "x", id_=f"r{number}", created_at_ms=made)])
    assert [row.id for row in await store.stale_outbox(before_ms=4_000, limit=9)] == ["r2", "r4", "r3"]
    assert [row.id for row in await store.stale_outbox(before_ms=9_000, limit=2)] == ["r2", "r4"]


async def test_replies_of_one_commit_keep_their_order(store: SqlStore) -> None:
    """Also past ten, where ids sort wrongly as text."""
    replies = [reply(ANN, str(number), id_=f"m1:{number}", turn_id="t1") for number in range(12)]
    await store.put_outbox(replies)
    assert await store.stale_outbox(before_ms=9_000, limit=20) == replies


async def test_a_known_id_is_skipped(store: SqlStore) -> None:
    await store.put_outbox([reply(ANN, "first", id_="r1")])
    await store.put_outbox([reply(ANN, "second", id_="r1"), reply(ANN, "other", id_="r2")])
    assert sorted(row.text for row in await store.stale_outbox(before_ms=9_000, limit=9)) == ["first", "other"]


async def test_what_is_published_or_ended_is_not_stale(store: SqlStore) -> None:
    await store.put_outbox([reply(ANN, "x", id_=f"r{number}") for number in range(4)])
    await store.mark_published(["r0", "unknown"])
    await store.record_receipts([ended("r1", DeliveryState.SENT), ended("r2", DeliveryState.FAILED)])
    assert [row.id for row in await store.stale_outbox(before_ms=9_000, limit=9)] == ["r3"]


async def test_a_receipt_that_overtakes_the_mark_stays(store: SqlStore) -> None:
    """The channel may be faster than the worker that marks the reply as published."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.commit_turn(outcome(start, "t1", messages))
    await store.record_receipts([ended("t1:0", DeliveryState.SENT)])
    await store.mark_published(["t1:0"])
    assert (await begin(store, "t2", messages, fence=2)).unsent == ()


async def test_what_was_sent_stays_sent(store: SqlStore, database_url: str) -> None:
    """A second channel process that took over too early may report a failure after the success."""
    await store.put_outbox([reply(ANN, "x", id_="r1"), reply(ANN, "y", id_="r2")])
    await store.record_receipts([ended("r1", DeliveryState.SENT), ended("r2", DeliveryState.UNKNOWN)])
    await store.record_receipts([ended("r1", DeliveryState.FAILED), ended("r2", DeliveryState.SENT)])
    states = select(outbox.c.state, deliveries.c.state).join(deliveries, deliveries.c.reply_id == outbox.c.id)
    assert await rows(database_url, states) == [("sent", "sent"), ("sent", "sent")]


async def test_empty_lists_are_no_work(store: SqlStore) -> None:
    await store.put_outbox([])
    await store.mark_published([])
    await store.record_receipts([])
    assert await store.stale_outbox(before_ms=9_000, limit=9) == []


async def test_a_receipt_for_a_notice_needs_no_outbox_row(store: SqlStore, database_url: str) -> None:
    """A channel's own notices (queue full, pairing code) never were in SQL."""
    await store.record_receipts([ended("notice-1", DeliveryState.SENT)])
    kept = select(deliveries.c.reply_id, deliveries.c.key, deliveries.c.platform_ids, deliveries.c.updated_at_ms)
    assert await rows(database_url, kept) == [("notice-1", "telegram:1", '["55"]', 3_000)]


async def test_two_relays_may_write_the_same_receipts_at_once(store: SqlStore) -> None:
    ids = [f"r{number}" for number in range(30)]
    await store.put_outbox([reply(ANN, "x", id_=id_) for id_ in ids])
    receipts = [ended(id_, DeliveryState.SENT) for id_ in ids]
    await asyncio.gather(store.record_receipts(receipts), store.record_receipts(receipts[::-1]))
    assert await store.stale_outbox(before_ms=9_000, limit=99) == []


async def test_recent_deliveries_tell_how_far_each_reply_came_newest_first(store: SqlStore) -> None:
    for number in range(4):
        await store.put_outbox([reply(ANN, "x", id_=f"r{number}", turn_id=f"t{number}", created_at_ms=number)])
    await store.put_outbox([reply(BOB, "y", id_="of bob", created_at_ms=99)])
    await store.mark_published(["r1"])
    await store.record_receipts([ended("r2", DeliveryState.SENT), ended("r3", DeliveryState.FAILED)])
    recent = await store.recent_deliveries(ANN, limit=3)
    told = [(row.reply_id, row.turn_id, row.state, row.chunks_sent, row.chunks, row.attempts) for row in recent]
    assert told == [
        ("r3", "t3", DeliveryState.FAILED, 1, 1, 1),
        ("r2", "t2", DeliveryState.SENT, 1, 1, 1),
        ("r1", "t1", DeliveryState.PENDING, 0, 0, 0),
    ]
    assert [row.reply_id for row in await store.recent_deliveries(None, limit=2)] == ["of bob", "r3"]
