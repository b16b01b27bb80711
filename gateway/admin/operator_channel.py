"""The API as a channel of its own: answers to what the operator ordered end here, never in a chat.

An order such as "compact this session" is a message on the session's lane, so that it waits its turn like any
other. Its reply address names the channel `admin`; this room takes such replies from the outbound stream and
writes their receipt, as every channel does. What the order did is seen in the session itself.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState, InboundMessage, Receipt
from gateway.contracts.ports import Clock, PendingReply, Scrubber

NAME: Final = "admin"
_AUTHOR: Final = "operator"
_BATCH: Final = 32
_WAIT_S: Final = 5.0
_BUS_PAUSE_S: Final = 1.0

log = structlog.get_logger("trivet.admin")


def compact_order(key: SessionKey, focus: str, *, scrubber: Scrubber, clock: Clock) -> InboundMessage:
    """`/compact [focus]` as a message of the operator on the lane of `key`."""
    now_ms = clock.now_ms()
    return InboundMessage(
        id=f"{NAME}:{_AUTHOR}:{key}:{clock.new_id()}",
        key=key,
        address=ReplyAddress(NAME, str(key), "{}"),
        text=scrubber.for_chat(str(key)).scrub(f"/compact {focus}".strip()),
        author_id=_AUTHOR,
        author_name=scrubber.scrub(_AUTHOR),
        is_private=True,
        sent_at_ms=now_ms,
        received_at_ms=now_ms,
    )


async def take_replies(bus: Deliveries, *, consumer: str, clock: Clock) -> None:
    """Log every reply to the operator and write its receipt, until cancelled."""
    while True:
        try:
            for pending in await bus.replies(NAME, consumer, count=_BATCH, wait_s=_WAIT_S):
                log.info("reply to the operator", key=str(pending.reply.key), text=_first_line(pending.reply.text))
                await bus.finish(NAME, pending.entry_id, _receipt(pending, clock))
        except BusUnavailable as error:
            log.warning("the bus is away", error=str(error))
            await asyncio.sleep(_BUS_PAUSE_S)


def _receipt(pending: PendingReply, clock: Clock) -> Receipt:
    record = DeliveryRecord(
        pending.reply.id,
        DeliveryState.SENT,
        attempt=pending.record.attempt + 1,
        next_chunk=1,
        chunks=1,
        updated_at_ms=clock.now_ms(),
    )
    return Receipt(record, pending.reply.key, NAME)


def _first_line(text: CleanText) -> str:
    return text.partition("\n")[0][:200]
