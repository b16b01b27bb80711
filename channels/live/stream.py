"""One growing answer on its way to people: one call at a time, the latest text, never in the way of the answer itself.

Where drafts fade by themselves nothing needs to be remembered. Elsewhere each message is written down in the ledger
before it is begun, and again with its id: whoever delivers the reply makes them its own (`channels.outbound.adopting`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from channels.adapter import (
    AnyChunk,
    Cadence,
    ChannelAdapter,
    SupportsChoices,
    SupportsPlaceholders,
    SupportsStreaming,
)
from channels.homes import Homes
from channels.leases import Tenure
from channels.live.growth import Begin, Change, TakeBack, has_grown, next_step
from channels.outbound.choices import rendered
from channels.outbound.lessons import Lessons
from channels.outbound.quiet import Spot, Spots
from channels.outbound.withdrawing import Withdrawing
from channels.pacing import Pacer
from channels.patience import Patience
from channels.text.unfinished import as_if_closed
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import (
    AddressMoved,
    CredentialsRejected,
    DeliveryError,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, Draft, Preview, own_words
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

REFUSALS_MAX: Final = 3  # in a row; then this answer is shown when it is whole
_NOTHING: Final = own_words("")


@runtime_checkable
class StreamingAdapter(SupportsStreaming, SupportsChoices, ChannelAdapter, Protocol):
    """A platform on which answers are shown while they grow."""


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What all streams of a channel share."""

    adapter: StreamingAdapter
    bus: Deliveries
    places: Places
    clock: Clock
    homes: Homes
    tenure: Tenure
    spots: Spots
    pacer: Pacer
    patience: Patience
    lessons: Lessons
    withdrawing: Withdrawing


class Stream:
    """Shows one answer until it is told to end, or may not go on."""

    def __init__(self, parts: StreamParts, draft: Draft) -> None:
        self._parts = parts
        self._adapter = parts.adapter
        self._draft = draft
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._refusals = 0
        self._told = _NOTHING
        self._is_behind = False
        self._row: Preview | None = None
        self._shown: list[AnyChunk | None] = []
        self._shown_at_s = float("-inf")

    @property
    def turn_id(self) -> str:
        """Whose answer it is."""
        return self._draft.turn_id

    def renew(self, draft: Draft) -> None:
        """The latest text wins over all that has not been shown yet."""
        self._draft = draft
        self._changed.set()

    def end(self) -> None:
        """No call begins any more; one that is under way comes to its end."""
        self._over.set()
        self._changed.set()

    async def run(self) -> None:
        """Until it ends. Raises `BusUnavailable`, `Abandoned`."""
        (lane,) = await self._parts.homes.lanes([self._draft.address])
        spot = self._parts.spots.of(lane)
        cadence = self._adapter.cadence(self._draft.address)
        if cadence is not None:
            await self._rest(cadence.first_after_s)
        while cadence is not None and not self._over.is_set():
            if not self._is_due(cadence):
                await self._until_changed(cadence)
                continue
            await self._rest(spot.free_at_s - _now_s())
            async with spot.one_at_a_time:
                if not self._over.is_set():
                    await self._go_on(spot, cadence)
            cadence = self._adapter.cadence(self._draft.address)

    def _is_due(self, cadence: Cadence) -> bool:
        has_news = self._is_behind or has_grown(self._told, self._draft.text, chars_min=cadence.chars_min)
        return has_news or self._fades_in_s(cadence) <= 0

    def _fades_in_s(self, cadence: Cadence) -> float:
        """How long what is shown stays: for ever, if it was not shown or does not fade."""
        if cadence.fades_after_s is None or not self._told:
            return float("inf")
        return self._shown_at_s + cadence.fades_after_s - _now_s()

    async def _rest(self, for_s: float) -> None:
        """Sleep, unless it ends first."""
        try:
            async with asyncio.timeout(max(for_s, 0.0)):
                await self._over.wait()
        except TimeoutError:
            return

    async def _until_changed(self, cadence: Cadence) -> None:
        """Return when there is another text, when it ends, or when what is shown would fade."""
        self._changed.clear()
        left_s = self._fades_in_s(cadence)
        try:
            async with asyncio.timeout(None if left_s == float("inf") else left_s):
                await self._changed.wait()
        except TimeoutError:
            return

    # --- one call

    async def _go_on(self, spot: Spot, cadence: Cadence) -> None:
        """Show the latest text, unless answers need the budgets; whatever comes of it, the next call waits its turn."""
        address = await self._parts.homes.newest(self._draft.address)
        try:
            if self._parts.tenure.is_sure and await self._parts.pacer.may_spend(self._adapter.budgets(address)):
                await self._show(address)
                self._refusals = 0
                spot.pace = spot.pace.taken()
        except DeliveryError as error:
            await self._learn(error, address, spot)
        except Exception:  # named boundary, delivery attempt: a draft is never worth a failure
            log.exception("%s: the draft of %s cannot be shown", self._adapter.name, self._draft.reply_id)
            self.end()
        spot.free_at_s = max(spot.free_at_s, _now_s() + spot.pace.interval_s(cadence))

    async def _learn(self, error: DeliveryError, address: ReplyAddress, spot: Spot) -> None:
        log.info("%s: the draft of %s: %s", self._adapter.name, self._draft.reply_id, error)
        match error:
            case RateLimited():
                spot.pace = spot.pace.refused()
                spot.free_at_s = _now_s() + error.retry_after_s
                await self._parts.lessons.learn(error, address)
            case AddressMoved():
                await self._parts.lessons.learn(error, address)
            case SendFailed() | OutcomeUnknown():
                pass
            case CredentialsRejected():
                self.end()
            case _:
                self._refusals += 1
        if self._refusals >= REFUSALS_MAX:
            self.end()

    async def _show(self, address: ReplyAddress) -> None:
        text = self._draft.text
        chunks = await rendered(self._adapter, text, as_if_closed)
        if chunks and self._adapter.is_draft(address):
            await self._show_draft(address, chunks[-1], at=len(chunks) - 1)
            self._is_behind = False
        elif chunks:
            await self._show_messages(address, chunks, text)
        self._told = text
        self._shown_at_s = _now_s()

    async def _show_draft(self, address: ReplyAddress, chunk: AnyChunk, *, at: int) -> None:
        """Of what goes beyond one message the end, where it grows."""
        send_id = f"{self._draft.reply_id}:{at}"
        if at == len(self._shown) - 1:
            await self._adapter.go_on(address, chunk, message_id="", send_id=send_id)
        else:
            await self._adapter.begin_stream(address, chunk, send_id=send_id)
            self._shown = [None] * (at + 1)

    async def _show_messages(self, address: ReplyAddress, chunks: Sequence[AnyChunk], text: CleanText) -> None:
        row = self._row or await self._known()
        if row.opening:  # one more may be there, which only the delivery of the answer finds out
            self.end()
            return
        self._row = row
        match next_step(self._shown, chunks):
            case Begin(chunk):
                await self._begin(address, row, chunk, text)
            case Change(at, chunk):
                await self._change(address, row, chunk, at)
            case TakeBack():
                await self._parts.withdrawing.take_back(address, row.messages[-1])
                await self._note(replace(row, messages=row.messages[:-1]))
                self._shown.pop()
        self._is_behind = next_step(self._shown, chunks) is not None

    async def _known(self) -> Preview:
        """What another process, or an earlier stream, has begun for this reply."""
        draft = self._draft
        row = await self._parts.bus.preview(self._adapter.name, draft.key, draft.reply_id)
        row = row or Preview(draft.address, draft.key, draft.turn_id, draft.reply_id)
        self._shown = [None] * len(row.messages)
        return row

    async def _begin(self, address: ReplyAddress, row: Preview, chunk: AnyChunk, text: CleanText) -> None:
        """Not before the ledger knows; a refusal takes that back, an unknown outcome stays with the ledger."""
        now_ms = self._parts.clock.now_ms()
        if not await self._note(replace(row, address=address, opening=text, begun_at_ms=now_ms)):
            return
        try:
            message_id = await self._adapter.begin_stream(address, chunk, send_id=f"{row.reply_id}:{len(row.messages)}")
        except OutcomeUnknown as error:
            self.end()
            await self._parts.lessons.learn(error, address)
            raise
        except DeliveryError:
            await self._note(row)
            raise
        begun = replace(row, address=address, messages=(*row.messages, message_id), begun_at_ms=now_ms)
        if not await self._note(begun):
            await self._parts.withdrawing.take_back(address, message_id)  # we slept, and another process has answered
            return
        self._shown.append(chunk)
        if isinstance(self._adapter, SupportsPlaceholders):
            place = self._adapter.place(address)
            await self._parts.patience.with_bus(lambda: self._parts.places.note_sent(place, [message_id]))

    async def _change(self, address: ReplyAddress, row: Preview, chunk: AnyChunk, at: int) -> None:
        is_there = await self._adapter.go_on(
            address, chunk, message_id=row.messages[at], send_id=f"{row.reply_id}:{at}"
        )
        if is_there:
            self._shown[at] = chunk
        else:  # somebody deleted it, and does not want to see it grow
            self.end()

    async def _note(self, row: Preview) -> bool:
        """Write the row, or, where nothing is shown any more, forget it. False: the answer is being delivered."""
        self._row = row
        parts, channel = self._parts, self._adapter.name
        if not row.messages and not row.opening:
            await parts.patience.with_bus(lambda: parts.bus.drop_preview(channel, row))
            return True
        is_noted = parts.tenure.is_sure and await parts.patience.with_bus(lambda: parts.bus.note_preview(channel, row))
        if not is_noted:
            self.end()
        return is_noted


def _now_s() -> float:
    return asyncio.get_running_loop().time()
