"""A channel without a platform: writes messages to the bus, takes the replies off it, as the channels role does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from types import TracebackType
from typing import Final, Self

from gateway.bus.bus import RedisBus
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    CleanText,
    ControlKind,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    InboundMessage,
    Receipt,
    Reply,
)
from gateway.contracts.ports import Destination, PendingReply, SendAttempt
from tests.bench.processes import BenchFailed

CHANNEL: Final = "telegram"
ANSWER_TIMEOUT_S: Final = 120.0
_CONSUMER: Final = "desk"
_BATCH: Final = 200
_WAIT_S: Final = 1.0
_numbers: Final = count(1)


def message(key: SessionKey, text: str) -> InboundMessage:
    """A new message, answered in the place that `key` names."""
    return InboundMessage(
        id=f"{key.channel}:bot:{key}:{next(_numbers)}",
        key=key,
        address=ReplyAddress(CHANNEL, str(key), "{}"),
        text=CleanText(text),
        author_id=key.user,
        author_name=CleanText("Anna"),
        is_private=key.is_private,
        sent_at_ms=1_700_000_000_000,
        received_at_ms=1_700_000_000_000,
    )


class Desk:
    """For `async with`: while the block lasts, every reply is written down as sent, with a receipt.

    `on_reply` is called for each reply as it comes.
    """

    def __init__(self, bus: RedisBus) -> None:
        self.bus = bus
        self.on_reply: Callable[[Reply], None] = lambda _: None
        self._heard: dict[SessionKey, asyncio.Future[float]] = {}
        self._delivering: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._delivering = asyncio.create_task(self._deliver_for_ever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._delivering is not None
        self._delivering.cancel()
        await asyncio.gather(self._delivering, return_exceptions=True)

    async def write(self, key: SessionKey, text: str) -> None:
        """Put one message on the bus. Raises `BenchFailed` if it is not taken."""
        admission = await self.bus.intake.enqueue(message(key, text))
        if admission.verdict != "accepted":
            raise BenchFailed(f"the bus refused a message: {admission}")

    async def ask(self, key: SessionKey, text: str) -> float:
        """Write and wait for the next reply of the lane; the seconds that took. Raises `TimeoutError`."""
        return await self._timed(key, self.write(key, text))

    async def stop(self, key: SessionKey) -> float:
        """The seconds until somebody told us that the lane's turn was stopped."""
        return await self._timed(key, self._request_stop(key))

    async def _request_stop(self, key: SessionKey) -> None:
        await self.bus.intake.request_control(ControlRequest(ControlKind.STOP, message(key, "/stop")))

    async def _timed(self, key: SessionKey, writing: Awaitable[None]) -> float:
        loop = asyncio.get_running_loop()
        heard = self._heard[key] = loop.create_future()
        began_s = loop.time()
        await writing
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            heard_s: float = await heard
        return heard_s - began_s

    async def _deliver_for_ever(self) -> None:
        while True:
            found = await self.bus.deliveries.replies(CHANNEL, _CONSUMER, count=_BATCH, wait_s=_WAIT_S)
            heard_s = asyncio.get_running_loop().time()
            for pending in found:
                self.on_reply(pending.reply)
                waiting = self._heard.pop(pending.reply.key, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(heard_s)
            await asyncio.gather(*map(self._finish, found))

    async def _finish(self, pending: PendingReply) -> None:
        """As delivery does: the ledger row before the platform is called, the receipt after."""
        reply = pending.reply
        begun = DeliveryRecord(reply.id, DeliveryState.SENDING, attempt=1)
        attempt = SendAttempt(reply.id, reply.id, Destination(CHANNEL, reply.address.lane), begun, is_first=True)
        await self.bus.deliveries.begin(CHANNEL, pending.entry_id, attempt)
        record = DeliveryRecord(reply.id, DeliveryState.SENT, attempt=1, next_chunk=1, chunks=1, platform_ids=("1",))
        await self.bus.deliveries.finish(CHANNEL, pending.entry_id, Receipt(record, reply.key, CHANNEL))
