"""Titles as the agent sends them on their way."""

from __future__ import annotations

import asyncio

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import TITLE_PREFIX, CleanText, DeliveryState, InboundMessage, Reply, ReplyKind
from tests.parts.waiting import PATIENCE_S, POLL_S


def called(message: InboundMessage, name: str) -> Reply:
    """What the agent says once the conversation of this message has a title."""
    return title_of(message.key, message.address, name)


def title_of(key: SessionKey, address: ReplyAddress, name: str) -> Reply:
    """The same for a message that nobody has heard yet."""
    clock = SystemClock()
    return Reply(
        id=f"{TITLE_PREFIX}{clock.new_id()}",
        turn_id="turn",
        key=key,
        address=address,
        text=CleanText(""),
        kind=ReplyKind.TITLE,
        created_at_ms=clock.now_ms(),
        title=CleanText(name),
    )


async def until_state(bus: RedisBus, title: Reply, state: DeliveryState) -> None:
    """Wait until the ledger says so."""
    async with asyncio.timeout(PATIENCE_S):
        while (await bus.deliveries.delivered(title.key, title.id)).state is not state:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
