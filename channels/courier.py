"""One reply, chunk by chunk, with the ledger written before every platform call.

    pending -> sending -> sent | failed
                  |  retry      certainly not delivered: wait and send again
                  |  unknown    perhaps delivered: look it up, then send again

A reply found in `sending` was interrupted by a crash, so it is unknown too. What the platform says is
turned into one of few moves by `next_move`, which is pure; the courier only carries them out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from channels.adapter import AnyChunk, ChannelAdapter, SupportsLookup
from channels.backoff import Backoff, jittered
from channels.pacing import Pacer
from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    BusUnavailable,
    CredentialsRejected,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Receipt, Reply
from gateway.contracts.ports import Clock, DeliveryBus, PendingReply
from gateway.limits import DELIVERY_ATTEMPTS_MAX

log = logging.getLogger(__name__)

RETRY_DELAYS_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0)  # 8 attempts outlast a 20-minute outage
RATE_LIMITS_MAX: Final = 200  # a 429 is flow control, no failure; yet a bucket that never opens must end
MOVES_MAX: Final = 3  # a chat that moves more often is a loop
SENDS_MAX: Final = 64  # platform calls at once; each holds one HTTP connection
BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0

_T = TypeVar("_T")


class Abandoned(Exception):
    """The process is stopping while this reply waits; the stream still has it."""


@dataclass(frozen=True, slots=True)
class Journey:
    """How far one chunk came: where it goes, in which form, after how much trouble."""

    address: ReplyAddress
    attempt: int = 0
    is_plain: bool = False
    is_unsure: bool = False
    rate_limits: int = 0
    moves: int = 0


@dataclass(frozen=True, slots=True)
class Again:
    """Send the chunk again as `journey` says, after `wait_s`; the ledger says `state` meanwhile.

    A platform's own `retry_after_s` is exact; a back-off of ours gets jitter.
    """

    journey: Journey
    wait_s: float
    state: DeliveryState
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This reply cannot be delivered, for a reason fit for the operator."""

    reason: str


def next_move(error: DeliveryError, journey: Journey) -> Again | GiveUp:
    """What follows from a platform's refusal. Pure; without jitter."""
    match error:
        case RateLimited():
            waited = replace(journey, rate_limits=journey.rate_limits + 1)
            if waited.rate_limits >= RATE_LIMITS_MAX:
                return GiveUp(f"rate limited {waited.rate_limits} times in a row")
            return Again(waited, error.retry_after_s, DeliveryState.RETRY, is_exact=True)
        case AddressMoved():
            moved = replace(journey, address=error.address, moves=journey.moves + 1)
            return GiveUp("the chat keeps moving") if moved.moves > MOVES_MAX else _at_once(moved)
        case FormatRefused():
            if journey.is_plain:
                return GiveUp(f"refused even as plain text: {error}")
            return _at_once(replace(journey, is_plain=True))
        case AddressDead():
            return GiveUp(str(error))
        case OutcomeUnknown():
            return _later(replace(journey, is_unsure=True), error, DeliveryState.UNKNOWN)
        case _:
            return _later(journey, error, DeliveryState.RETRY)


def _at_once(journey: Journey) -> Again:
    return Again(journey, 0.0, DeliveryState.RETRY)


def _later(journey: Journey, error: DeliveryError, state: DeliveryState) -> Again | GiveUp:
    tried = replace(journey, attempt=journey.attempt + 1)
    if tried.attempt >= DELIVERY_ATTEMPTS_MAX:
        return GiveUp(f"gave up after {tried.attempt} attempts: {error}")
    return Again(tried, RETRY_DELAYS_S[min(tried.attempt, len(RETRY_DELAYS_S)) - 1], state)


class Courier:
    """Sends replies of one channel. Safe to use from many lanes at once."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: DeliveryBus,
        clock: Clock,
        *,
        answering: Callable[[Reply], None] = lambda reply: None,
        delay_scale: float = 1.0,
    ) -> None:
        """`answering` is told just before the first chunk leaves; `delay_scale` shortens the waits of tests."""
        self._adapter = adapter
        self._bus = bus
        self._clock = clock
        self._pacer = Pacer(bus, adapter.name, self._wait)
        self._answering = answering
        self._delay_scale = delay_scale
        self._sends = asyncio.Semaphore(SENDS_MAX)
        self._stopping = asyncio.Event()

    def abandon_waits(self) -> None:
        """From now on a reply that would have to wait raises `Abandoned` instead."""
        self._stopping.set()

    async def deliver(self, pending: PendingReply) -> None:
        """Bring one reply to its end and write the receipt. Raises `CredentialsRejected`, `Abandoned`."""
        record = pending.record
        if record.state not in (DeliveryState.SENT, DeliveryState.FAILED):
            record = await self._try_all(pending.reply, record)
        receipt = Receipt(record, pending.reply.key, self._adapter.name)
        await self._with_bus(lambda: self._bus.finish(self._adapter.name, pending.entry_id, receipt))

    async def _try_all(self, reply: Reply, record: DeliveryRecord) -> DeliveryRecord:
        try:
            return await self._send_all(reply, record)
        except (CredentialsRejected, Abandoned):
            raise
        except Exception as error:  # one reply that cannot even be tried must not block its lane
            log.exception("%s: reply %s cannot be delivered", self._adapter.name, reply.id)
            return self._stamped(record, DeliveryState.FAILED, reason=f"unforeseen {type(error).__name__}")

    async def _send_all(self, reply: Reply, record: DeliveryRecord) -> DeliveryRecord:
        chunks = self._adapter.chunks(reply.text)
        record = replace(record, chunks=len(chunks))
        journey = Journey(
            reply.address,
            attempt=record.attempt,
            is_unsure=record.state in (DeliveryState.SENDING, DeliveryState.UNKNOWN),
        )
        while record.next_chunk < len(chunks):
            chunk = chunks[record.next_chunk]
            sent = await self._send_chunk(reply, record, chunk, journey)
            if isinstance(sent, GiveUp):
                log.error("%s: reply %s failed: %s", self._adapter.name, reply.id, sent.reason)
                return self._stamped(record, DeliveryState.FAILED, reason=sent.reason)
            ids, journey = sent
            record = replace(
                record,
                next_chunk=record.next_chunk + 1,
                platform_ids=record.platform_ids + ids,
                updated_at_ms=self._clock.now_ms(),
            )
            journey = replace(journey, is_plain=False, is_unsure=False, rate_limits=0)
        return self._stamped(record, DeliveryState.SENT)

    async def _send_chunk(
        self, reply: Reply, record: DeliveryRecord, chunk: AnyChunk, journey: Journey
    ) -> tuple[tuple[str, ...], Journey] | GiveUp:
        since_ms = record.updated_at_ms or self._clock.now_ms()
        while True:
            try:
                if journey.is_unsure:
                    found = await self._look_up(reply, record, chunk, journey, since_ms)
                    if found is not None:
                        return found, journey
                    journey = replace(journey, is_unsure=False)
                return await self._attempt(reply, record, chunk, journey), journey
            except CredentialsRejected as error:
                await self._note(record, DeliveryState.RETRY, journey, str(error))
                raise
            except DeliveryError as error:
                move = next_move(error, journey)
                if isinstance(move, GiveUp):
                    return move
                log.warning("%s: reply %s: %s", self._adapter.name, reply.id, error)
                if isinstance(error, RateLimited):
                    await self._pause(journey.address, error.retry_after_s)
                await self._note(record, move.state, move.journey, str(error))
                await self._wait(move.wait_s if move.is_exact else jittered(move.wait_s) * self._delay_scale)
                journey = move.journey

    async def _attempt(
        self, reply: Reply, record: DeliveryRecord, chunk: AnyChunk, journey: Journey
    ) -> tuple[str, ...]:
        address = journey.address
        await self._adapter.until_ready()
        await self._with_bus(lambda: self._pacer.wait(self._adapter.budgets(address)))
        await self._note(record, DeliveryState.SENDING, journey, "")
        if record.next_chunk == 0:
            self._answering(reply)
        try:
            async with self._sends:
                return await self._adapter.send(address, chunk, send_id=_send_id(record), plain=journey.is_plain)
        except DeliveryError:
            raise
        except Exception as error:  # named boundary, delivery attempt: whatever an SDK throws, it may have gone out
            log.exception("%s: reply %s: unforeseen error", self._adapter.name, reply.id)
            raise OutcomeUnknown(f"unforeseen {type(error).__name__}") from error

    async def _look_up(
        self, reply: Reply, record: DeliveryRecord, chunk: AnyChunk, journey: Journey, since_ms: int
    ) -> tuple[str, ...] | None:
        if not isinstance(self._adapter, SupportsLookup):
            log.warning("%s: reply %s may be sent twice: its last attempt was cut", self._adapter.name, reply.id)
            return None
        await self._adapter.until_ready()
        return await self._adapter.find_sent(journey.address, chunk, send_id=_send_id(record), since_ms=since_ms)

    async def _note(self, record: DeliveryRecord, state: DeliveryState, journey: Journey, reason: str) -> None:
        row = self._stamped(replace(record, attempt=journey.attempt), state, reason=reason)
        await self._with_bus(lambda: self._bus.record(row))

    def _stamped(self, record: DeliveryRecord, state: DeliveryState, *, reason: str = "") -> DeliveryRecord:
        return replace(record, state=state, reason=reason, updated_at_ms=self._clock.now_ms())

    async def _pause(self, address: ReplyAddress, for_s: float) -> None:
        budgets = self._adapter.budgets(address)
        await self._with_bus(lambda: self._pacer.pause(budgets, for_s=for_s))

    async def _wait(self, delay_s: float) -> None:
        """Sleep unless the process stops first."""
        if delay_s <= 0:
            return
        if self._stopping.is_set():
            raise Abandoned
        try:
            async with asyncio.timeout(delay_s):  # wait_for may swallow a cancellation before Python 3.12
                await self._stopping.wait()
        except TimeoutError:
            return
        raise Abandoned

    async def _with_bus(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Nothing may be sent that the ledger does not know, so wait for the bus as long as it takes."""
        backoff = Backoff(BUS_RETRY_FIRST_S, BUS_RETRY_CAP_S)
        while True:
            try:
                return await call()
            except BusUnavailable as error:
                log.warning("%s: delivery waits for the bus: %s", self._adapter.name, error)
                await self._wait(backoff.next_s())


def _send_id(record: DeliveryRecord) -> str:
    """The same for every attempt at one chunk of one reply."""
    return f"{record.reply_id}:{record.next_chunk}"
