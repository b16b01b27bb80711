"""Delivery of committed replies: one at a time in each lane, lanes in parallel.

One process at a time delivers for an account, by a lease on the bus: so the order of a lane holds over retries and
over a change of the process. The outbound stream keeps a reply until its receipt is written; the next holder takes
up again whatever stops here. One attempt at one chunk is in `channels.core.attempt`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from channels.core import attempt
from channels.core.adapter import ChannelAdapter
from channels.core.content import FileFetcher, ReplyContents, chunks_of
from channels.core.lease import LeaseValidity, while_holding
from channels.core.places import AddressResolver
from channels.core.preview import SETTLE_DELAYS_S, PreviewAdopter
from channels.core.rate_limit import (
    BUS_RETRY_CAP_S,
    BUS_RETRY_FIRST_S,
    Abandoned,
    BackoffTimer,
    DeliveryHealth,
    LaneLock,
    LaneLocks,
    Pacer,
)
from channels.core.status import Postponed, StatusDelivery, TitleDelivery
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Files
from gateway.bus.places import Places
from gateway.contracts import errors
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryState, Reply, ReplyKind
from gateway.contracts.ports import Clock, PendingReply
from gateway.scrub import Scrubber
from gateway.tasks import Backoff, first_to_end, jittered

log = logging.getLogger(__name__)

# The queue of one lane: replies in the order of their commits, and status lines and titles, which are no messages of
# their own, for when nothing else waits.

_STATUS_KINDS: Final = (ReplyKind.STATUS, ReplyKind.TITLE)
_ANSWERS: Final = (ReplyKind.ANSWER, ReplyKind.ERROR)


def lane_for(reply: Reply, lane: str) -> str:
    """Return the lane in which the reply waits: titles have lanes of their own, so that nothing ever waits for them."""
    return f"{lane} title" if reply.kind is ReplyKind.TITLE else lane


class LaneQueue:
    """The replies of one lane, which may grow while it is worked off; one reply at a time is out. `lock` is told how
    many there are."""

    def __init__(self, lock: LaneLock) -> None:
        self.lock = lock
        self._replies: deque[PendingReply] = deque()
        self._status_replies: deque[PendingReply] = deque()
        self._answered: set[str] = set()
        self._paused_until_s = float("-inf")
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._replies) + len(self._status_replies)

    def put(self, pending: PendingReply) -> None:
        self._row(pending).append(pending)
        self.lock.replies = len(self._replies)
        if pending.reply.kind in _ANSWERS:
            self._answered.add(pending.reply.turn_id)
        self._changed.set()

    def next(self) -> PendingReply | None:
        """Return the reply to send now; None while there is none, or only replies that pause."""
        if self._replies:
            return self._replies[0]
        return self._status_replies[0] if self._status_replies and self._pause_left_s() <= 0 else None

    def is_overtaken(self, pending: PendingReply) -> bool:
        """Tell whether a later edit of the same status line waits, or a later title of the same conversation. A status
        line that is no edit is also overtaken if its turn has been answered: it would come after the answer."""
        reply, behind = pending.reply, tuple(self._status_replies)[1:]
        if reply.kind is ReplyKind.TITLE:
            return any(other.reply.key == reply.key for other in behind)
        if reply.amends:
            return any(other.reply.amends == reply.amends for other in behind)
        return bool(reply.turn_id) and reply.turn_id in self._answered

    def done(self, pending: PendingReply) -> None:
        """Remove the reply that `next` gave, since it has come to its end."""
        self._row(pending).popleft()
        self.lock.replies = len(self._replies)

    def put_off(self, later: Postponed) -> None:
        """Keep the status line or title that `next` gave in front of the others; all of them pause."""
        self._status_replies[0] = later.pending
        self._paused_until_s = asyncio.get_running_loop().time() + later.pause_s

    async def until_changed(self) -> None:
        """Return when something comes, when the pause is over, or when told to look."""
        self._changed.clear()
        try:
            async with asyncio.timeout(max(self._pause_left_s(), 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return

    def look(self) -> None:
        """Wake the lane, since something else has changed."""
        self._changed.set()

    def _row(self, pending: PendingReply) -> deque[PendingReply]:
        return self._status_replies if pending.reply.kind in _STATUS_KINDS else self._replies

    def _pause_left_s(self) -> float:
        return self._paused_until_s - asyncio.get_running_loop().time()


# One reply, chunk by chunk, with the ledger written before every platform call.
#
#     pending -> sending -> sent | failed
#                   |  retry      certainly not delivered: wait and send again
#                   |  unknown    perhaps delivered: find out, then send again (or, if so configured, leave it)
#
# A reply found in `sending` was interrupted by a crash, so it is unknown too. What the platform says is turned into
# one of few moves by `next_move`, which is pure; one attempt is the business of `ChunkSender`; `ReplyDelivery` goes on
# until the reply has an end.

_ENDED: Final = (DeliveryState.SENT, DeliveryState.FAILED)


@dataclass(eq=False, repr=False)
class ReplyDelivery:
    """Sends replies of one channel; status lines and titles are left to its `statuses` and `titles`. Safe to use from
    many lanes at once. `answering` is called just before the first chunk leaves, `ended` when the receipt of a reply is
    written; `delay_scale` shortens the waits of tests."""

    adapter: ChannelAdapter
    bus: Deliveries
    places: Places
    files: Files
    scrubber: Scrubber
    clock: Clock
    addresses: AddressResolver
    validity: LeaseValidity
    _: KW_ONLY
    rules: attempt.SendRules
    answering: Callable[[Reply], None] = lambda reply: None
    ended: Callable[[Reply, DeliveryState], Awaitable[None]] | None = None
    delay_scale: float = 1.0

    def __post_init__(self) -> None:
        self._backoff = BackoffTimer(scale=self.delay_scale)
        pacer = Pacer(self.bus, self.adapter)
        self._file_fetcher = FileFetcher(self.files, self._backoff)
        self._health = DeliveryHealth(self.adapter, self.places, pacer, self._backoff, self.scrubber)
        self._adopter = PreviewAdopter(self.adapter, self.places, self._backoff)
        self._remover = attempt.PreviewRemover(self.adapter)
        self._sender = attempt.ChunkSender(self.adapter, self.places, self._backoff, self.validity, self.rules)
        self.titles = TitleDelivery(
            self.adapter, self.bus, self.places, self.addresses, self._backoff, self.scrubber, self.clock
        )
        self.statuses = StatusDelivery(
            self.adapter, self.bus, self.addresses, self._sender, self._health, self._backoff, self.scrubber, self.clock
        )

    def abandon_waits(self) -> None:
        """Raise `Abandoned` from now on for each reply that would have to wait."""
        self._backoff.end()

    async def deliver(self, pending: PendingReply) -> None:
        """Bring one reply to its end and write the receipt.

        Raises `CredentialsRejected`, `Abandoned`, and `TakenOver` when it is another process's reply by now."""
        entry = attempt.DeliveryEntry(pending, self.adapter.name, self.bus, self.scrubber, self.clock, self._backoff)
        state, reason = await self._try_all(entry)
        if state is DeliveryState.FAILED:
            log.error("%s: reply %s failed: %s", self.adapter.name, entry.reply.id, reason)
            await self._take_back(entry, entry.reply.address, behind=entry.record.next_chunk)
        await entry.finish(state, reason=reason)
        if self.ended is not None:
            await self.ended(entry.reply, state)

    async def _try_all(self, entry: attempt.DeliveryEntry) -> tuple[DeliveryState, str]:
        try:
            while True:
                try:
                    return await self._send_all(entry)
                except attempt.PreviewChanged:
                    entry.forget()
        except (errors.CredentialsRejected, Abandoned, attempt.TakenOver):
            raise
        except Exception as error:  # one reply that cannot even be tried must not block its lane
            log.exception("%s: reply %s cannot be delivered", self.adapter.name, entry.reply.id)
            return DeliveryState.FAILED, f"unforeseen {type(error).__name__}"

    async def _send_all(self, entry: attempt.DeliveryEntry) -> tuple[DeliveryState, str]:
        address = await self._backoff.with_bus(lambda: self.addresses.newest(entry.reply.address))
        texts = await chunks_of(entry.reply, self.adapter)
        opened = await self._sender.open(entry, address, texts=len(texts), files=len(entry.reply.files))
        if entry.record.state in _ENDED:
            return entry.record.state, str(entry.record.reason)
        was_cut = entry.is_interrupted
        await self._adopter.adopt(entry, address, opened)
        contents = ReplyContents(self.adapter, entry.reply, texts, self._file_fetcher, shown=len(entry.record.shown))
        if opened.dead_because and not was_cut:
            return DeliveryState.FAILED, f"not tried, because of an earlier refusal: {opened.dead_because}"
        entry.record = replace(entry.record, chunks=len(contents))
        chunk_attempt = attempt.ChunkAttempt(
            address, attempt=entry.record.attempt, is_unsure=was_cut, is_careful=was_cut or opened.is_account_unsure
        )
        if not was_cut:  # else the state has to stay until the chunk in question is settled
            await self._sender.remember(entry, address)
        left_at: list[str] = []
        while entry.record.next_chunk < len(contents):
            if entry.record.next_chunk == contents.texts:
                await self._take_back(entry, chunk_attempt.address, behind=contents.texts)
            chunk_attempt = replace(chunk_attempt, carries_file=contents.carries_file(entry.record.next_chunk))
            try:
                sent = await self._send_chunk(entry, contents, chunk_attempt)
            except attempt.LeftUnconfirmed:
                left_at.append(str(entry.record.next_chunk + 1))
                if entry.reply.choices:  # nobody is to press a button below what may not have arrived
                    break
                entry.arrived((), spared=contents.spared if entry.is_whole else 0)
                chunk_attempt = chunk_attempt.next_chunk()
                continue
            if isinstance(sent, attempt.FailReply):
                return DeliveryState.FAILED, sent.reason
            ids, chunk_attempt = sent
            entry.arrived(ids, spared=contents.spared if entry.is_whole else 0)
            is_all = entry.record.next_chunk >= len(contents) and not any(entry.record.shown[contents.texts :])
            await self._sender.remember(entry, chunk_attempt.address, at_end=is_all)
            chunk_attempt = chunk_attempt.next_chunk()
        await self._take_back(entry, chunk_attempt.address, behind=contents.texts)
        if left_at:
            return DeliveryState.UNKNOWN, f"nobody knows whether message {', '.join(left_at)} of it arrived"
        return DeliveryState.SENT, ""

    async def _send_chunk(
        self, entry: attempt.DeliveryEntry, contents: ReplyContents, chunk_attempt: attempt.ChunkAttempt
    ) -> tuple[tuple[str, ...], attempt.ChunkAttempt] | attempt.FailReply:
        since_ms = entry.record.begun_at_ms if chunk_attempt.is_unsure else self.clock.now_ms()
        leaving = self._leaving(entry)
        while True:
            entry.is_whole = contents.is_whole(entry.record.next_chunk, chunk_attempt)
            try:
                async with contents.chunk(entry.record.next_chunk, chunk_attempt) as chunk:
                    ids = await self._sender.attempt(entry, chunk, chunk_attempt, since_ms=since_ms, leaving=leaving)
            except errors.DeliveryError as error:
                move = attempt.next_move(error, chunk_attempt, is_young=entry.age_s < attempt.YOUNG_S)
                if not (chunk_attempt.carries_file and isinstance(error, errors.AddressDead)):
                    await self._health.learn(error, chunk_attempt.address)
                if isinstance(move, attempt.FailReply):
                    return move
                log.warning("%s: reply %s: %s", self.adapter.name, entry.reply.id, error)
                state = DeliveryState.UNKNOWN if move.chunk_attempt.is_unsure else move.state
                await entry.note(state, reason=str(error), attempt=move.chunk_attempt.attempt)
                if move.chunk_attempt.rejections >= attempt.REJECTIONS_MAX:
                    raise
                if move.is_exact:
                    await self._backoff.wait(move.wait_s)
                else:
                    await self._backoff.back_off(jittered(move.wait_s))
                chunk_attempt = move.chunk_attempt
            else:
                return ids, chunk_attempt

    async def _take_back(self, entry: attempt.DeliveryEntry, address: ReplyAddress, *, behind: int) -> None:
        """Take back the messages that showed the draft and have not become a chunk of the reply."""
        for message_id in filter(None, entry.record.shown[behind:]):
            for delay_s in SETTLE_DELAYS_S:
                try:
                    await self._remover.take_back(address, message_id, entry.reply.language)
                except (errors.RateLimited, errors.SendFailed, errors.OutcomeUnknown) as error:
                    log.warning("%s: reply %s: %s", self.adapter.name, entry.reply.id, error)
                    await self._backoff.back_off(jittered(delay_s))
                except errors.DeliveryError as error:
                    log.warning("%s: a draft of reply %s stays: %s", self.adapter.name, entry.reply.id, error)
                    break
                else:
                    break
        if entry.record.shown[behind:]:
            entry.record = replace(entry.record, shown=entry.record.shown[:behind])

    def _leaving(self, entry: attempt.DeliveryEntry) -> Callable[[], None]:
        """Return what to call when a chunk leaves: the first one ends the typing indicator."""
        return (lambda: None) if entry.record.next_chunk else (lambda: self.answering(entry.reply))


TAKE_MAX: Final = 64  # replies asked for at once: enough to fill the lanes
IN_HAND_MAX: Final = 1_000  # beyond this the stream is the better place to wait
READ_WAIT_S: Final = 5.0
UNREADY_MAX_S: Final = 15.0  # a process without its platform lets another one deliver
ARRIVE_WITHIN_S: Final = 5.0  # what such a process had begun; the next one asks what became of the rest
READY_LOOK_S: Final = 1.0


@dataclass(eq=False, repr=False)
class DeliveryDispatcher:
    """Takes the replies of one channel and keeps each lane in order. `lane_locks` are those of all that call the
    platform for a lane; `coming` is called with each reply as soon as it is taken."""

    adapter: ChannelAdapter
    bus: Deliveries
    delivery: ReplyDelivery
    addresses: AddressResolver
    validity: LeaseValidity
    _: KW_ONLY
    consumer: str
    lane_locks: LaneLocks = field(default_factory=LaneLocks)
    coming: Callable[[Reply], None] = lambda reply: None
    _lanes: dict[str, LaneQueue] = field(init=False, default_factory=dict)
    _workers: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _in_hand: set[str] = field(init=False, default_factory=set)
    _room: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _rejected: asyncio.Future[None] | None = field(init=False, default=None)
    _draining: bool = field(init=False, default=False)
    _leaving: bool = field(init=False, default=False)

    @property
    def is_draining(self) -> bool:
        """Tell whether nothing more is taken."""
        return self._draining

    @property
    def in_hand(self) -> int:
        """Count the replies taken and not finished."""
        return len(self._in_hand)

    async def run(self) -> None:
        """Deliver until cancelled or drained. Raises `CredentialsRejected` when the platform throws us out."""
        while not self._draining:
            await self.adapter.until_ready()
            await while_holding(
                self.bus,
                f"delivery:{self.adapter.account}",
                self.consumer,
                self._deliver,
                waiting=lambda obstacle: log.debug("%s: not delivering: %s", self.adapter.name, obstacle),
                validity=self.validity,
            )

    async def drain(self, *, grace_s: float) -> None:
        """Take nothing more, let what is in flight arrive; what waits stays in the stream."""
        self._draining = True
        self.delivery.abandon_waits()
        self._leave()
        workers = tuple(self._workers.values())
        if workers:
            await asyncio.wait(workers, timeout=grace_s)

    async def _deliver(self) -> None:
        """Deliver while the lease is ours, until told to drain or until the platform is out of reach for too long."""
        self._rejected = asyncio.get_running_loop().create_future()
        self._leaving = False
        try:
            await first_to_end(self._take(), self._until_rejected(self._rejected), self._until_unready())
            self._leave()
            if self._workers:  # one that waits for the platform would hold the lease until the platform is back
                within_s = None if self._draining else ARRIVE_WITHIN_S
                await asyncio.wait(self._workers.values(), timeout=within_s)
        finally:
            await _cancelled(*self._workers.values())
            self._in_hand.clear()
            self.bus.put_back(self.adapter.name)
            for waiting in self._lanes.values():
                waiting.lock.replies = 0
            self._lanes.clear()

    def _leave(self) -> None:
        """Finish what is in flight and leave in the stream what waits."""
        self._leaving = True
        for waiting in self._lanes.values():
            waiting.look()

    async def _until_rejected(self, rejected: asyncio.Future[None]) -> None:
        await rejected

    async def _until_unready(self) -> None:
        while True:
            try:
                async with asyncio.timeout(UNREADY_MAX_S):
                    await self.adapter.until_ready()
            except TimeoutError:
                log.warning("%s: not ready for %g s, so another process may deliver", self.adapter.name, UNREADY_MAX_S)
                return
            await asyncio.sleep(READY_LOOK_S)

    async def _take(self) -> None:
        backoff = Backoff(BUS_RETRY_FIRST_S, BUS_RETRY_CAP_S)
        while not self._draining:
            try:
                taken = await self.bus.replies(self.adapter.name, self.consumer, count=TAKE_MAX, wait_s=READ_WAIT_S)
                self.lane_locks.is_placing = True
                lanes = await self.addresses.lanes([pending.reply.address for pending in taken])
                backoff.reset()
            except errors.BusUnavailable as error:
                log.warning("%s: no replies while the bus is away: %s", self.adapter.name, error)
                self.bus.put_back(self.adapter.name)
                await asyncio.sleep(backoff.next_s())
                continue
            for pending, lane in zip(taken, lanes, strict=True):
                self._put(pending, lane_for(pending.reply, lane))
            self.lane_locks.is_placing = False
            while len(self._in_hand) >= IN_HAND_MAX:
                self._room.clear()
                await self._room.wait()

    def _put(self, pending: PendingReply, lane: str) -> None:
        if pending.entry_id in self._in_hand:
            return
        self._in_hand.add(pending.entry_id)
        self.coming(pending.reply)
        if lane not in self._lanes:
            self._lanes[lane] = LaneQueue(self.lane_locks.of(lane))
        self._lanes[lane].put(pending)
        if lane not in self._workers:
            worker = asyncio.create_task(self._work(lane), name=f"{self.adapter.name}-lane")
            self._workers[lane] = worker

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        try:
            while waiting and not self._leaving:
                pending = waiting.next()
                if pending is None:
                    await waiting.until_changed()
                    continue
                async with waiting.lock.one_at_a_time:
                    later = await self._carry(pending, is_overtaken=waiting.is_overtaken(pending))
                if later:
                    waiting.put_off(later)
                    continue
                waiting.done(pending)
                self._in_hand.discard(pending.entry_id)
                self._room.set()
        except Abandoned:
            log.info("%s: %d replies stay in the stream", self.adapter.name, len(waiting))
        except errors.CredentialsRejected as error:
            if self._rejected is not None and not self._rejected.done():
                self._rejected.set_exception(error)
        finally:
            del self._workers[lane]
            if not waiting:  # else its lock goes on counting, so that no draft comes in front of what is left
                del self._lanes[lane]

    async def _carry(self, pending: PendingReply, *, is_overtaken: bool) -> Postponed | None:
        """Bring it to its end, or, a status line or a title, perhaps not yet."""
        try:
            match pending.reply.kind:
                case ReplyKind.STATUS:
                    return await self.delivery.statuses.attempt(pending, is_overtaken=is_overtaken)
                case ReplyKind.TITLE:
                    return await self.delivery.titles.attempt(pending, is_overtaken=is_overtaken)
                case _:
                    await self.delivery.deliver(pending)
        except attempt.TakenOver:
            log.warning("%s: reply %s is delivered by another process", self.adapter.name, pending.reply.id)
        return None


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
