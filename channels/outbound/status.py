"""A status line on its way out: one attempt at a time, given up rather than late, never in an answer's way.

It makes no sound where the platform lets us choose, spends only what answers leave over of the rate limits, and the
typing indicator does not hear of it. A line that has not been sent before its turn's answer never is. An edit is tried
for long, and so is finding a line that may have been sent: without them it would say for ever that somebody is at work.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final

from channels.adapter import ChannelAdapter
from channels.homes import Homes
from channels.outbound.choices import chunks_of
from channels.outbound.journey import RETRY_DELAYS_S
from channels.outbound.lessons import Lessons
from channels.outbound.page import Page, TakenOver
from channels.outbound.sender import Crowded, Sender
from channels.patience import Abandoned, Patience
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    CredentialsRejected,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
    Untraceable,
)
from gateway.contracts.messages import DeliveryState
from gateway.contracts.ports import Clock, PendingReply, Scrubber

log = logging.getLogger(__name__)

LINE_LATE_AFTER_S: Final = 8.0  # less than RELAY_AFTER_S: what SQL's sweep finds is no news any more
LOST_LATE_AFTER_S: Final = 60.0  # a process that died over it is followed by another within seconds
EDIT_LATE_AFTER_S: Final = 86_400.0  # a platform may be away for hours; whoever scrolls up later is told the truth
ATTEMPT_MAX_S: Final = 5.0  # an answer may have come meanwhile
CROWDED_PAUSE_S: Final = 1.0  # until answers leave something over
_ENDED: Final = (DeliveryState.SENT, DeliveryState.FAILED)
_INTERRUPTED: Final = (DeliveryState.SENDING, DeliveryState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class PutOff:
    """Not now: the line, as it stands in the ledger, is to be tried again after `pause_s`."""

    pending: PendingReply
    pause_s: float


@dataclass(frozen=True, slots=True)
class _Ending:
    state: DeliveryState
    reason: str = ""


class StatusCourier:
    """Sends the status lines of one channel. Safe to use from many lanes at once."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        homes: Homes,
        sender: Sender,
        lessons: Lessons,
        patience: Patience,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._adapter = adapter
        self._bus = bus
        self._homes = homes
        self._sender = sender
        self._lessons = lessons
        self._patience = patience
        self._scrubber = scrubber
        self._clock = clock

    async def attempt(self, pending: PendingReply, *, is_overtaken: bool) -> PutOff | None:
        """Send the line, or edit it; `is_overtaken`: what has come since makes it needless. None: it has come to
        its end, the receipt is written. Raises `CredentialsRejected`, `Abandoned`, `TakenOver`."""
        page = Page(pending, self._adapter.name, self._bus, self._scrubber, self._clock, self._patience)
        outcome = self._foregone(page, is_overtaken=is_overtaken) or await self._tried(page)
        if isinstance(outcome, _Ending):
            if outcome.state is not DeliveryState.SENT:
                log.info("%s: status line %s is left out: %s", self._adapter.name, page.reply.id, outcome.reason)
            await page.finish(outcome.state, reason=outcome.reason)
            return None
        return PutOff(replace(pending, record=page.record), outcome)

    def _foregone(self, page: Page, *, is_overtaken: bool) -> _Ending | None:
        """What needs no attempt."""
        if page.record.state in _ENDED:
            return _Ending(page.record.state, page.record.reason)
        if is_overtaken and not _may_be_out(page):
            return _Ending(DeliveryState.FAILED, "an answer or a later edit takes its place")
        return _Ending(DeliveryState.FAILED, "too late") if _left_s(page) <= 0 else None

    async def _tried(self, page: Page) -> _Ending | float:
        """How it ended, or the pause before the next attempt."""
        try:
            async with asyncio.timeout(ATTEMPT_MAX_S):
                return await self._send(page)
        except (CredentialsRejected, Abandoned, TakenOver):
            raise
        except TimeoutError:
            late = OutcomeUnknown("no answer within the time that a status line has")
            return await self._after(page, late, may_be_out=_may_be_out(page))
        except Exception as error:  # one line that cannot even be tried must not block its lane
            log.exception("%s: status line %s cannot be sent", self._adapter.name, page.reply.id)
            return _Ending(DeliveryState.FAILED, f"unforeseen {type(error).__name__}")

    async def _send(self, page: Page) -> _Ending | float:
        address = await self._patience.with_bus(lambda: self._homes.newest(page.reply.address))
        outlook = await self._lessons.outlook(address)
        if outlook.dead_because:
            return _Ending(DeliveryState.FAILED, f"not tried, because of an earlier refusal: {outlook.dead_because}")
        chunks = await chunks_of(page.reply, self._adapter)
        page.record = replace(page.record, chunks=len(chunks))
        if not chunks:
            return _Ending(DeliveryState.SENT)
        may_be_out, ids = _may_be_out(page), None
        try:
            if may_be_out:
                ids = await self._sender.find_status(page, chunks[-1], address)
                may_be_out = False
            if ids is None:
                ids = await self._sender.attempt_status(page, chunks[-1], address)
        except Crowded:
            return CROWDED_PAUSE_S
        except CredentialsRejected:
            raise
        except DeliveryError as error:
            await self._lessons.learn(error, address)
            is_unknown = isinstance(error, OutcomeUnknown) and _may_be_out(page)
            return await self._after(page, error, may_be_out=may_be_out or is_unknown)
        page.arrived(ids)
        await self._sender.remember(page, address)
        return _Ending(DeliveryState.SENT)

    async def _after(self, page: Page, error: DeliveryError, *, may_be_out: bool) -> _Ending | float:
        match error:
            case Untraceable():
                return _Ending(DeliveryState.UNKNOWN, str(error))
            case AddressDead() | FormatRefused():
                return _Ending(DeliveryState.FAILED, str(error))
            case RateLimited():
                pause_s = error.retry_after_s
            case AddressMoved():
                pause_s = 0.0
            case _:
                chosen_s = RETRY_DELAYS_S[min(page.record.attempt, len(RETRY_DELAYS_S) - 1)]
                pause_s = self._patience.chosen_s(chosen_s)
        if pause_s >= _left_s(page):
            return _Ending(DeliveryState.FAILED, str(error))
        state = DeliveryState.UNKNOWN if may_be_out else DeliveryState.RETRY
        await page.note(state, reason=str(error), attempt=page.record.attempt + 1)
        return pause_s


def _may_be_out(page: Page) -> bool:
    """True of a line whose sending was cut: it may stand there."""
    return page.record.state in _INTERRUPTED and not page.reply.amends


def _left_s(page: Page) -> float:
    """How long it is worth trying."""
    if page.reply.amends:
        late_after_s = EDIT_LATE_AFTER_S
    else:
        late_after_s = LOST_LATE_AFTER_S if _may_be_out(page) else LINE_LATE_AFTER_S
    return late_after_s - (page.now_ms() - page.reply.created_at_ms) / 1000
