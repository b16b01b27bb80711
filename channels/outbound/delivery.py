"""Committed replies on their way out: one in flight per lane, lanes in parallel, nothing forgotten. Status lines go
when nothing else waits in their lane, titles beside it.

One process at a time delivers for an account, by a lease on the bus: so the order of a lane holds over
retries and over a change of the process. The outbound stream keeps a reply until its receipt is written;
whatever stops here is taken up again by the next holder. How one reply is sent is told in `channels.outbound.courier`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from channels.adapter import ChannelAdapter
from channels.backoff import Backoff
from channels.homes import Homes
from channels.leases import Tenure, while_holding
from channels.outbound.courier import Courier
from channels.outbound.lane import Waiting, lane_for
from channels.outbound.page import TakenOver
from channels.outbound.quiet import Spots
from channels.outbound.status import PutOff
from channels.patience import Abandoned
from channels.together import first_to_end
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import PendingReply

log = logging.getLogger(__name__)

TAKE_MAX: Final = 64  # replies asked for at once: enough to fill the lanes
IN_HAND_MAX: Final = 1_000  # beyond this the stream is the better place to wait
READ_WAIT_S: Final = 5.0
BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0
UNREADY_MAX_S: Final = 15.0  # a process without its platform lets another one deliver
READY_LOOK_S: Final = 1.0


class Delivery:
    """Takes the replies of one channel and keeps each lane in order."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        courier: Courier,
        homes: Homes,
        tenure: Tenure,
        *,
        consumer: str,
        spots: Spots | None = None,
        coming: Callable[[Reply], None] = lambda reply: None,
    ) -> None:
        """`spots` is shared with whoever else calls the platform for a lane; `coming` is told of each reply that is
        taken, as soon as it is."""
        self._adapter = adapter
        self._bus = bus
        self._courier = courier
        self._homes = homes
        self._tenure = tenure
        self._consumer = consumer
        self._spots = spots or Spots()
        self._coming = coming
        self._lanes: dict[str, Waiting] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._in_hand: set[str] = set()
        self._room = asyncio.Event()
        self._rejected: asyncio.Future[None] | None = None
        self._draining = False
        self._leaving = False

    @property
    def is_draining(self) -> bool:
        """True when nothing more is taken."""
        return self._draining

    @property
    def in_hand(self) -> int:
        """Replies taken and not finished."""
        return len(self._in_hand)

    async def run(self) -> None:
        """Deliver until cancelled or drained. Raises `CredentialsRejected` when the platform throws us out."""
        while not self._draining:
            await self._adapter.until_ready()
            await while_holding(
                self._bus,
                f"delivery:{self._adapter.account}",
                self._consumer,
                self._deliver,
                waiting=lambda obstacle: log.debug("%s: not delivering: %s", self._adapter.name, obstacle),
                tenure=self._tenure,
            )

    async def drain(self, *, grace_s: float) -> None:
        """Take nothing more, let what is in flight arrive; what waits stays in the stream."""
        self._draining = True
        self._courier.abandon_waits()
        self._leave()
        workers = tuple(self._workers.values())
        if workers:
            await asyncio.wait(workers, timeout=grace_s)

    async def _deliver(self) -> None:
        """While the lease is ours: until told to drain, or the platform is out of reach for too long."""
        self._rejected = asyncio.get_running_loop().create_future()
        self._leaving = False
        try:
            await first_to_end(self._take(), self._until_rejected(self._rejected), self._until_unready())
            self._leave()
            await asyncio.gather(*self._workers.values())
        finally:
            await _cancelled(*self._workers.values())
            self._in_hand.clear()
            self._bus.put_back(self._adapter.name)

    def _leave(self) -> None:
        """What is in flight comes to its end, what waits stays in the stream."""
        self._leaving = True
        for waiting in self._lanes.values():
            waiting.look()

    async def _until_rejected(self, rejected: asyncio.Future[None]) -> None:
        await rejected

    async def _until_unready(self) -> None:
        while True:
            try:
                async with asyncio.timeout(UNREADY_MAX_S):
                    await self._adapter.until_ready()
            except TimeoutError:
                log.warning("%s: not ready for %g s, so another process may deliver", self._adapter.name, UNREADY_MAX_S)
                return
            await asyncio.sleep(READY_LOOK_S)

    async def _take(self) -> None:
        backoff = Backoff(BUS_RETRY_FIRST_S, BUS_RETRY_CAP_S)
        while not self._draining:
            try:
                taken = await self._bus.replies(self._adapter.name, self._consumer, count=TAKE_MAX, wait_s=READ_WAIT_S)
                lanes = await self._homes.lanes([pending.reply.address for pending in taken])
                backoff.reset()
            except BusUnavailable as error:
                log.warning("%s: no replies while the bus is away: %s", self._adapter.name, error)
                self._bus.put_back(self._adapter.name)
                await asyncio.sleep(backoff.next_s())
                continue
            for pending, lane in zip(taken, lanes, strict=True):
                self._put(pending, lane_for(pending.reply, lane))
            while len(self._in_hand) >= IN_HAND_MAX:
                self._room.clear()
                await self._room.wait()

    def _put(self, pending: PendingReply, lane: str) -> None:
        if pending.entry_id in self._in_hand:
            return
        self._in_hand.add(pending.entry_id)
        self._coming(pending.reply)
        self._lanes.setdefault(lane, Waiting()).put(pending)
        if lane not in self._workers:
            worker = asyncio.create_task(self._work(lane), name=f"{self._adapter.name}-lane")
            self._workers[lane] = worker

    async def _work(self, lane: str) -> None:
        waiting, spot = self._lanes[lane], self._spots.of(lane)
        try:
            while waiting and not self._leaving:
                pending = waiting.next()
                if pending is None:
                    await waiting.until_changed()
                    continue
                async with spot.one_at_a_time:
                    later = await self._carry(pending, is_overtaken=waiting.is_overtaken(pending))
                if later:
                    waiting.put_off(later)
                    continue
                waiting.done(pending)
                self._in_hand.discard(pending.entry_id)
                self._room.set()
        except Abandoned:
            log.info("%s: %d replies stay in the stream", self._adapter.name, len(waiting))
        except CredentialsRejected as error:
            if self._rejected is not None and not self._rejected.done():
                self._rejected.set_exception(error)
        finally:
            del self._lanes[lane], self._workers[lane]

    async def _carry(self, pending: PendingReply, *, is_overtaken: bool) -> PutOff | None:
        """Bring it to its end, or, a status line or a title, perhaps not yet."""
        try:
            match pending.reply.kind:
                case ReplyKind.STATUS:
                    return await self._courier.statuses.attempt(pending, is_overtaken=is_overtaken)
                case ReplyKind.TITLE:
                    return await self._courier.titles.attempt(pending, is_overtaken=is_overtaken)
                case _:
                    await self._courier.deliver(pending)
        except TakenOver:
            log.warning("%s: reply %s is delivered by another process", self._adapter.name, pending.reply.id)
        return None


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
