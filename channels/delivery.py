"""Committed replies on their way out: one in flight per lane, lanes in parallel, nothing forgotten.

The outbound stream keeps a reply until its receipt is written, so whatever stops here is taken up again
by the next process. How one reply is sent, chunk by chunk, is told in `channels.courier`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from channels.adapter import ChannelAdapter
from channels.backoff import Backoff
from channels.courier import Abandoned, Courier
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.contracts.ports import DeliveryBus, PendingReply

log = logging.getLogger(__name__)

TAKE_MAX: Final = 64  # replies asked for at once: enough to fill the lanes, small enough to share with a peer
IN_HAND_MAX: Final = 1_000  # beyond this the stream is the better place to wait
READ_WAIT_S: Final = 5.0
BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0


class Delivery:
    """Takes the replies of one channel and keeps each lane in order."""

    def __init__(self, adapter: ChannelAdapter, bus: DeliveryBus, courier: Courier, *, consumer: str) -> None:
        self._adapter = adapter
        self._bus = bus
        self._courier = courier
        self._consumer = consumer
        self._lanes: dict[str, deque[PendingReply]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._in_hand: set[str] = set()
        self._room = asyncio.Event()
        self._rejected: asyncio.Future[None] | None = None
        self._draining = False

    @property
    def is_draining(self) -> bool:
        """True when nothing more is taken."""
        return self._draining

    @property
    def in_hand(self) -> int:
        """Replies taken and not finished."""
        return len(self._in_hand)

    async def run(self) -> None:
        """Deliver until cancelled. Raises `CredentialsRejected` when the platform throws us out."""
        self._rejected = asyncio.get_running_loop().create_future()
        taking = asyncio.create_task(self._take(), name=f"{self._adapter.name}-replies")
        try:
            await asyncio.wait((taking, self._rejected), return_when=asyncio.FIRST_COMPLETED)
            (self._rejected if self._rejected.done() else taking).result()
            await asyncio.gather(*self._workers.values())
        finally:
            await _cancelled(taking, *self._workers.values())

    async def drain(self, *, grace_s: float) -> None:
        """Take nothing more, let what is in flight arrive; what waits stays in the stream."""
        self._draining = True
        self._courier.abandon_waits()
        workers = tuple(self._workers.values())
        if workers:
            await asyncio.wait(workers, timeout=grace_s)

    async def _take(self) -> None:
        backoff = Backoff(BUS_RETRY_FIRST_S, BUS_RETRY_CAP_S)
        await self._adapter.until_ready()
        while not self._draining:
            try:
                taken = await self._bus.replies(self._adapter.name, self._consumer, count=TAKE_MAX, wait_s=READ_WAIT_S)
                backoff.reset()
            except BusUnavailable as error:
                log.warning("%s: no replies while the bus is away: %s", self._adapter.name, error)
                await asyncio.sleep(backoff.next_s())
                continue
            for pending in taken:
                self._put(pending)
            while len(self._in_hand) >= IN_HAND_MAX:
                self._room.clear()
                await self._room.wait()

    def _put(self, pending: PendingReply) -> None:
        if pending.entry_id in self._in_hand:
            return
        self._in_hand.add(pending.entry_id)
        lane = pending.reply.address.lane
        self._lanes.setdefault(lane, deque()).append(pending)
        if lane not in self._workers:
            worker = asyncio.create_task(self._work(lane), name=f"{self._adapter.name}-lane")
            self._workers[lane] = worker

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        try:
            while waiting and not self._draining:
                pending = waiting[0]
                await self._courier.deliver(pending)
                waiting.popleft()
                self._in_hand.discard(pending.entry_id)
                self._room.set()
        except Abandoned:
            log.info("%s: %d replies stay in the stream", self._adapter.name, len(waiting))
        except CredentialsRejected as error:
            if self._rejected is not None and not self._rejected.done():
                self._rejected.set_exception(error)
        finally:
            del self._lanes[lane], self._workers[lane]


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
