"""Committed replies and receipts, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sqlalchemy import select

from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText, DeliveryState, ReplyKind
from gateway.store import Store, open_store
from gateway.store.tables import deliveries, outbox
from tests.contract.store_samples import ANN, BOB, ended, reply, rows, unsent
from tests.doubles import ManualClock


async def test_a_reply_comes_back_as_it_was_committed(store: Store) -> None:
    address = ReplyAddress("slack.T1", "C1/17.2", '{"channel":"C1","thread_ts":"17.2"}')
    said = replace(reply(BOB, "**hé** 中\n", id_="r1"), address=address, kind=ReplyKind.ERROR, title=CleanText("Тема"))
    await store.outbox.put([said])
    assert await unsent(store) == [said]


async def test_a_question_comes_back_with_its_choices_and_an_amendment_with_what_it_amends(store: Store) -> None:
    choices = tuple(Choice(CleanText(label), CleanText(f"/{label} K7")) for label in ("approve", "deny"))
    asked = replace(reply(ANN, "may I?", id_="r1"), kind=ReplyKind.QUESTION, choices=choices)
    amendment = replace(reply(ANN, "yes", id_="r2"), amends="r1")
    await store.outbox.put([asked, amendment])
    assert await unsent(store) == [asked, amendment]


async def test_one_reply_is_found_by_its_id_however_its_delivery_stands(store: Store) -> None:
    line = replace(reply(ANN, "⏳ explore", id_="status:t:k1"), kind=ReplyKind.STATUS)
    await store.outbox.put([line, replace(line, id="status:t:k1:completed", amends=line.id)])
    assert await store.outbox.committed("status:t:k1") == line
    assert await store.outbox.committed("status:t:k2") is None


async def test_the_relay_sees_old_replies_only_oldest_first_and_few_at_a_time(database_url: str, store: Store) -> None:
    for number, made in ((1, 4_000), (2, 1_000), (3, 3_000), (4, 2_000)):
        await store.outbox.put([reply(ANN, "x", id_=f"r{number}", created_at_ms=made)])
    relay = open_store(database_url, ManualClock(14_000))
    try:
        taken = [await relay.outbox.take_stale(after_ms=11_000, limit=2) for _ in range(3)]
    finally:
        await relay.close()
    assert [[row.id for row in page] for page in taken] == [["r2", "r4"], ["r3"], []]


async def test_the_relay_sees_few_at_a_time_however_postgresql_looks_for_them(poorly_planned_store: Store) -> None:
    await poorly_planned_store.outbox.put([reply(ANN, "x", id_=f"r{number}") for number in range(5)])
    taken = [await poorly_planned_store.outbox.take_stale(after_ms=0, limit=2) for _ in range(2)]
    assert [len(page) for page in taken] == [2, 2]


async def test_a_reply_without_a_receipt_is_looked_at_less_and_less_often(database_url: str, store: Store) -> None:
    """A channel that is down for an hour costs a few looks; a reply that the bus lost is still found."""
    await store.outbox.put([reply(ANN, "x", id_="r1", created_at_ms=0)])
    clock = ManualClock(0)
    relay = open_store(database_url, clock)
    looks = []
    try:
        for second in range(0, 3_600, 5):
            clock.at_ms = second * 1_000
            if await relay.outbox.take_stale(after_ms=10_000, limit=9):
                looks.append(second)
    finally:
        await relay.close()
    assert looks == [10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040]


async def test_a_stale_reply_is_given_to_one_relay(database_url: str, store: Store) -> None:
    """Any number of processes sweep; none repeats what another one does."""
    ids = [f"r{number:02}" for number in range(60)]
    await store.outbox.put([reply(ANN, "x", id_=id_) for id_ in ids])
    others = [open_store(database_url) for _ in range(3)]
    try:
        pages = await asyncio.gather(
            *(relay.outbox.take_stale(after_ms=10_000, limit=20) for relay in others for _ in range(5))
        )
    finally:
        for relay in others:
            await relay.close()
    assert sorted(row.id for page in pages for row in page) == ids


async def test_replies_of_one_commit_keep_their_order(store: Store) -> None:
    """Also past ten, where ids sort wrongly as text."""
    replies = [reply(ANN, str(number), id_=f"m1:{number}", turn_id="t1") for number in range(12)]
    await store.outbox.put(replies)
    assert await unsent(store) == replies


async def test_a_known_id_is_skipped(store: Store) -> None:
    await store.outbox.put([reply(ANN, "first", id_="r1")])
    await store.outbox.put([reply(ANN, "second", id_="r1"), reply(ANN, "other", id_="r2")])
    assert sorted(row.text for row in await unsent(store)) == ["first", "other"]


async def test_what_has_ended_is_not_stale(store: Store) -> None:
    await store.outbox.put([reply(ANN, "x", id_=f"r{number}") for number in range(4)])
    await store.outbox.record_receipts([ended("r1", DeliveryState.SENT), ended("r2", DeliveryState.FAILED)])
    assert [row.id for row in await unsent(store)] == ["r0", "r3"]


async def test_what_was_sent_stays_sent(store: Store, database_url: str) -> None:
    """A second channel process that took over too early may report a failure after the success."""
    await store.outbox.put([reply(ANN, "x", id_="r1"), reply(ANN, "y", id_="r2")])
    await store.outbox.record_receipts([ended("r1", DeliveryState.SENT), ended("r2", DeliveryState.UNKNOWN)])
    await store.outbox.record_receipts([ended("r1", DeliveryState.FAILED), ended("r2", DeliveryState.SENT)])
    states = select(outbox.c.state, deliveries.c.state).join(deliveries, deliveries.c.reply_id == outbox.c.id)
    assert await rows(database_url, states) == [("sent", "sent"), ("sent", "sent")]


async def test_empty_lists_are_no_work(store: Store) -> None:
    await store.outbox.put([])
    await store.outbox.record_receipts([])
    assert await unsent(store) == []


async def test_a_receipt_for_a_notice_needs_no_outbox_row(store: Store, database_url: str) -> None:
    """A channel's own notices (queue full, pairing code) never were in SQL."""
    await store.outbox.record_receipts([ended("notice-1", DeliveryState.SENT)])
    kept = select(deliveries.c.reply_id, deliveries.c.key, deliveries.c.platform_ids, deliveries.c.updated_at_ms)
    assert await rows(database_url, kept) == [("notice-1", "telegram:1", '["55"]', 3_000)]


async def test_two_relays_may_write_the_same_receipts_at_once(store: Store) -> None:
    ids = [f"r{number}" for number in range(30)]
    await store.outbox.put([reply(ANN, "x", id_=id_) for id_ in ids])
    receipts = [ended(id_, DeliveryState.SENT) for id_ in ids]
    await asyncio.gather(store.outbox.record_receipts(receipts), store.outbox.record_receipts(receipts[::-1]))
    assert await unsent(store) == []


async def test_recent_deliveries_tell_how_far_each_reply_came_newest_first(store: Store) -> None:
    for number in range(4):
        await store.outbox.put([reply(ANN, "x", id_=f"r{number}", turn_id=f"t{number}", created_at_ms=number)])
    await store.outbox.put([reply(BOB, "y", id_="of bob", created_at_ms=99)])
    await store.outbox.record_receipts([ended("r2", DeliveryState.SENT), ended("r3", DeliveryState.FAILED)])
    recent = await store.outbox.recent(ANN, limit=3)
    told = [(row.reply_id, row.turn_id, row.state, row.chunks_sent, row.chunks, row.attempts) for row in recent]
    assert told == [
        ("r3", "t3", DeliveryState.FAILED, 1, 1, 1),
        ("r2", "t2", DeliveryState.SENT, 1, 1, 1),
        ("r1", "t1", DeliveryState.PENDING, 0, 0, 0),
    ]
    assert [row.reply_id for row in await store.outbox.recent(None, limit=2)] == ["of bob", "r3"]
