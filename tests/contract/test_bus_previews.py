"""Drafts are told to whoever listens; what shows them is known to the ledger until the reply has it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from gateway.bus.bus import RedisBus
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Draft, Preview, literal_text
from gateway.limits import LEDGER_TTL_S
from tests.parts.bus_samples import address, reply
from tests.parts.waiting import PATIENCE_S

DRAFT = Draft(address(), reply(1).key, reply(1).turn_id, reply(1).id, literal_text("so far"))
PREVIEW = Preview(DRAFT.address, DRAFT.key, DRAFT.turn_id, DRAFT.reply_id, ("11",), literal_text("so far"), 1_700)


async def test_a_draft_is_heard_by_its_channel_and_by_nobody_else(bus: RedisBus) -> None:
    heard = bus.deliveries.drafts("telegram")
    hearing = asyncio.ensure_future(anext(heard))
    elsewhere = replace(DRAFT, address=replace(DRAFT.address, channel="discord"))
    async with asyncio.timeout(PATIENCE_S):
        while not hearing.done():
            await bus.deliveries.show_draft(elsewhere)
            await bus.deliveries.show_draft(DRAFT)
            await asyncio.sleep(0.01)
    assert hearing.result() == DRAFT


async def test_what_shows_a_draft_is_known_until_it_is_forgotten(bus: RedisBus, raw_redis: Any) -> None:
    assert await bus.deliveries.note_preview("telegram", replace(PREVIEW, messages=()))
    assert await bus.deliveries.note_preview("telegram", PREVIEW)
    assert await bus.deliveries.preview("telegram", PREVIEW.key, PREVIEW.reply_id) == PREVIEW
    assert list(await bus.deliveries.previews("telegram")) == [PREVIEW]
    assert list(await bus.deliveries.previews("discord")) == []
    assert 0 < raw_redis.ttl("{q0}:prv:telegram") <= LEDGER_TTL_S
    await bus.deliveries.drop_preview("telegram", PREVIEW)
    assert await bus.deliveries.preview("telegram", PREVIEW.key, PREVIEW.reply_id) is None


async def test_nothing_is_begun_for_a_reply_that_is_being_delivered(bus: RedisBus) -> None:
    """Whoever wrote its row has looked for previews before."""
    await bus.deliveries.publish([reply(1)])
    (pending,) = await bus.deliveries.replies("telegram", "c1", count=1, wait_s=0)
    sending = DeliveryRecord(reply(1).id, DeliveryState.SENDING, shown=("11", "12"))
    assert await bus.deliveries.record("telegram", pending.entry_id, sending)
    assert not await bus.deliveries.note_preview("telegram", PREVIEW)
    assert await bus.deliveries.preview("telegram", PREVIEW.key, PREVIEW.reply_id) is None
    assert (await bus.deliveries.delivered(reply(1).key, reply(1).id)).shown == ("11", "12")


async def test_a_preview_does_not_keep_its_reply_from_being_published(bus: RedisBus) -> None:
    assert await bus.deliveries.note_preview("telegram", PREVIEW)
    await bus.deliveries.publish([reply(1)])
    (pending,) = await bus.deliveries.replies("telegram", "c1", count=1, wait_s=0)
    assert pending.reply == reply(1)
