"""Delivery of status lines and titles: given up rather than late, never in an answer's way.

They make no sound where the platform lets us choose, spend only what answers leave over of the rate limits, and do not
change the typing indicator. A line that has not been sent before its turn's answer never is. An edit is tried for long,
and so is the search for a line that may have been sent: without them it would say for ever that somebody is at work."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final

from channels.core.adapter import ChannelAdapter, Nameable, SupportsNames
from channels.core.attempt import RETRY_DELAYS_S, ChunkSender, DeliveryEntry, NoSpareBudget, TakenOver
from channels.core.content import chunks_of
from channels.core.places import AddressResolver
from channels.core.rate_limit import Abandoned, BackoffTimer, DeliveryHealth, Urgency, place_of, token_wishes
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts import errors
from gateway.contracts.messages import DeliveryState
from gateway.contracts.ports import Clock, Destination, PendingReply
from gateway.scrub import Scrubber

log = logging.getLogger(__name__)

LINE_LATE_AFTER_S: Final = 8.0  # less than RELAY_AFTER_S: what SQL's sweep finds is no news any more
LOST_LATE_AFTER_S: Final = 60.0  # a process that died over it is followed by another within seconds
EDIT_LATE_AFTER_S: Final = 86_400.0  # a platform may be away for hours; a reader who scrolls up later finds the truth
ATTEMPT_MAX_S: Final = 5.0  # an answer may have come meanwhile
CROWDED_PAUSE_S: Final = 1.0  # until answers leave something over
_ENDED: Final = (DeliveryState.SENT, DeliveryState.FAILED)


@dataclass(frozen=True, slots=True)
class Postponed:
    """The line, as the ledger has it, is to be tried again after `pause_s`."""

    pending: PendingReply
    pause_s: float


@dataclass(frozen=True, slots=True)
class _Ending:
    state: DeliveryState
    reason: str = ""


_SENT: Final = _Ending(DeliveryState.SENT)


def _failed(reason: str) -> _Ending:
    return _Ending(DeliveryState.FAILED, reason)


def _ending_without_attempt(entry: DeliveryEntry, *, overtaken: str, left_s: float) -> _Ending | None:
    """Return the ending of an entry that needs no attempt. `overtaken` says what has taken its place, if anything."""
    if entry.record.state in _ENDED:
        return _Ending(entry.record.state, entry.record.reason)
    if overtaken:
        return _failed(overtaken)
    return _failed("too late") if left_s <= 0 else None


async def _settled(pending: PendingReply, entry: DeliveryEntry, outcome: _Ending | float) -> Postponed | None:
    """Write the receipt of an entry that has come to its end; `outcome` is its ending, or the pause before the next
    attempt."""
    if not isinstance(outcome, _Ending):
        return Postponed(replace(pending, record=entry.record), outcome)
    if outcome.state is not DeliveryState.SENT:
        log.info("%s: %s is left out: %s", entry.reply.address.channel, entry.reply.id, outcome.reason)
    await entry.finish(outcome.state, reason=outcome.reason)
    return None


def _chosen_s(entry: DeliveryEntry) -> float:
    return RETRY_DELAYS_S[min(entry.record.attempt, len(RETRY_DELAYS_S) - 1)]


@dataclass(eq=False, repr=False)
class StatusDelivery:
    """Sends the status lines of one channel. Safe to use from many lanes at once."""

    adapter: ChannelAdapter
    bus: Deliveries
    addresses: AddressResolver
    sender: ChunkSender
    health: DeliveryHealth
    backoff: BackoffTimer
    scrubber: Scrubber
    clock: Clock

    async def attempt(self, pending: PendingReply, *, is_overtaken: bool) -> Postponed | None:
        """Send the line, or edit it; `is_overtaken`: what has come since makes it needless. None: it has come to
        its end, the receipt is written. Raises `CredentialsRejected`, `Abandoned`, `TakenOver`."""
        entry = DeliveryEntry(pending, self.adapter.name, self.bus, self.scrubber, self.clock, self.backoff)
        if is_overtaken or _left_s(entry) <= 0:  # else it is read when it is opened
            await entry.look()
        overtaken = "an answer or a later edit takes its place" if is_overtaken and not _may_be_out(entry) else ""
        ending = _ending_without_attempt(entry, overtaken=overtaken, left_s=_left_s(entry))
        return await _settled(pending, entry, ending or await self._tried(entry))

    async def _tried(self, entry: DeliveryEntry) -> _Ending | float:
        """Try once; return how it ended, or the pause before the next attempt."""
        try:
            async with asyncio.timeout(ATTEMPT_MAX_S):
                return await self._send(entry)
        except (errors.CredentialsRejected, Abandoned, TakenOver):
            raise
        except TimeoutError:
            late = errors.OutcomeUnknown("no answer within the time that a status line has")
            return await self._after(entry, late, may_be_out=_may_be_out(entry))
        except Exception as error:  # one line that cannot even be tried must not block its lane
            log.exception("%s: status line %s cannot be sent", self.adapter.name, entry.reply.id)
            return _failed(f"unforeseen {type(error).__name__}")

    async def _send(self, entry: DeliveryEntry) -> _Ending | float:
        address = await self.backoff.with_bus(lambda: self.addresses.newest(entry.reply.address))
        chunks = await chunks_of(entry.reply, self.adapter)
        try:
            opened = await self.sender.open(entry, address, texts=len(chunks), urgency=Urgency.EDIT)
        except NoSpareBudget:
            return CROWDED_PAUSE_S
        ending = _ending_without_attempt(entry, overtaken="", left_s=_left_s(entry))
        if ending and not entry.has_begun:
            return ending
        if opened.dead_because:
            return _failed(f"not tried, because of an earlier refusal: {opened.dead_because}")
        entry.record = replace(entry.record, chunks=len(chunks))
        if not chunks:
            return _SENT
        may_be_out, ids = _may_be_out(entry), None
        try:
            if may_be_out:
                ids = await self.sender.find_status(entry, chunks[-1], address)
                may_be_out = False
            if ids is None:
                ids = await self.sender.attempt_status(entry, chunks[-1], address)
        except NoSpareBudget:
            return CROWDED_PAUSE_S
        except errors.DeliveryError as error:  # of a token that is bad the answers tell
            await self.health.learn(error, address)
            is_unknown = isinstance(error, errors.OutcomeUnknown) and _may_be_out(entry)
            return await self._after(entry, error, may_be_out=may_be_out or is_unknown)
        entry.arrived(ids)
        await self.sender.remember(entry, address, at_end=True)
        return _SENT

    async def _after(self, entry: DeliveryEntry, error: errors.DeliveryError, *, may_be_out: bool) -> _Ending | float:
        match error:
            case errors.Untraceable():
                return _Ending(DeliveryState.UNKNOWN, str(error))
            case errors.AddressDead() | errors.FormatRefused():
                return _failed(str(error))
            case errors.RateLimited():
                pause_s = error.retry_after_s
            case errors.AddressMoved():
                pause_s = 0.0
            case _:
                pause_s = self.backoff.chosen_s(_chosen_s(entry))
        if pause_s >= _left_s(entry):
            return _failed(str(error))
        state = DeliveryState.UNKNOWN if may_be_out else DeliveryState.RETRY
        await entry.note(state, reason=str(error), attempt=entry.record.attempt + 1)
        return pause_s


def _may_be_out(entry: DeliveryEntry) -> bool:
    """Tell whether sending the line was cut off, so that it may be there."""
    return entry.is_interrupted and not entry.reply.amends


def _left_s(entry: DeliveryEntry) -> float:
    """Return how long it is worth trying."""
    if entry.reply.amends:
        late_after_s = EDIT_LATE_AFTER_S
    else:
        late_after_s = LOST_LATE_AFTER_S if _may_be_out(entry) else LINE_LATE_AFTER_S
    return late_after_s - entry.age_s


# The title of a conversation on its way to the thread or topic that bears it: may be repeated, never in a hurry.
#
# No answer waits for it: titles have lanes of their own, spend the platform's budget for names, and their refusals say
# nothing about the place as a place for answers. If several wait for a place, only the last is given; a title that
# cannot be given for too long is dropped.

TITLE_LATE_AFTER_S: Final = 900.0  # a thread of Discord's may be renamed twice in ten minutes
TITLE_ATTEMPT_MAX_S: Final = 10.0  # an SDK may wait for a rate limit by itself


@dataclass(eq=False, repr=False)
class TitleDelivery:
    """Names the places of one channel. Safe to use from many lanes at once."""

    adapter: ChannelAdapter
    bus: Deliveries
    places: Places
    addresses: AddressResolver
    backoff: BackoffTimer
    scrubber: Scrubber
    clock: Clock

    def __post_init__(self) -> None:
        self._naming = self.adapter if isinstance(self.adapter, SupportsNames) else None

    async def attempt(self, pending: PendingReply, *, is_overtaken: bool) -> Postponed | None:
        """Name the place; `is_overtaken`: a later title of the same conversation waits already. None: the title has
        come to its end, the receipt is written. Raises `Abandoned`, `TakenOver`."""
        entry = DeliveryEntry(pending, self.adapter.name, self.bus, self.scrubber, self.clock, self.backoff)
        await entry.look()
        overtaken = "a later title takes its place" if is_overtaken else ""
        ending = _ending_without_attempt(entry, overtaken=overtaken, left_s=TITLE_LATE_AFTER_S - entry.age_s)
        return await _settled(pending, entry, ending or await self._tried(entry))

    async def _tried(self, entry: DeliveryEntry) -> _Ending | float:
        """Try once; return how it ended, or the pause before the next attempt."""
        try:
            async with asyncio.timeout(TITLE_ATTEMPT_MAX_S):
                return await self._name(entry)
        except (Abandoned, TakenOver):
            raise
        except errors.DeliveryError as error:
            return await self._after(entry, error)
        except TimeoutError:
            return await self._after(entry, errors.OutcomeUnknown("no answer within the time that a title has"))
        except Exception as error:  # named boundary, delivery attempt: a name is never worth a failure
            log.exception("%s: %s cannot be given", self.adapter.name, entry.reply.id)
            return _failed(f"unforeseen {type(error).__name__}")

    async def _name(self, entry: DeliveryEntry) -> _Ending | float:
        naming, title = self._naming, entry.reply.title
        if naming is None or not title:
            return _SENT
        await self.adapter.until_ready()
        address = await self.backoff.with_bus(lambda: self.addresses.newest(entry.reply.address))
        place = naming.nameable(address)
        if place is None or not await self._is_ours(entry, place):
            return _SENT
        if not await naming.lacks_name(address, title):
            return _SENT
        destination = Destination(self.adapter.account, place_of(self.adapter, address))
        begun = await entry.begin(destination, token_wishes(place.budgets, Urgency.ANSWER))
        if begun.wait_s > 0:
            return await self._later(entry, begun.wait_s, "the place was named too often lately")
        await naming.name_place(address, title)
        return _SENT

    async def _is_ours(self, entry: DeliveryEntry, place: Nameable) -> bool:
        name, key = f"{self.adapter.account}:{place.name}", str(entry.reply.key)
        return await self.backoff.with_bus(
            lambda: self.places.may_name(name, conversation=key, is_first=place.is_first)
        )

    async def _after(self, entry: DeliveryEntry, error: errors.DeliveryError) -> _Ending | float:
        match error:
            case (
                errors.AddressDead() | errors.FormatRefused() | errors.CredentialsRejected()
            ):  # of a token that is bad the sends tell
                return _failed(str(error))
            case errors.RateLimited():
                return await self._later(entry, error.retry_after_s, str(error))
            case _:
                return await self._later(entry, self.backoff.chosen_s(_chosen_s(entry)), str(error))

    async def _later(self, entry: DeliveryEntry, pause_s: float, reason: str) -> _Ending | float:
        if pause_s >= TITLE_LATE_AFTER_S - entry.age_s:
            return _failed(reason)
        await entry.note(DeliveryState.RETRY, reason=reason, attempt=entry.record.attempt + 1)
        return pause_s
