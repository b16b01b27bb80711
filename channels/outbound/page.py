"""The ledger's page of one reply in hand: written before each platform call, refused once somebody else has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from channels.patience import Patience
from gateway.bus.deliveries import Deliveries
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Receipt, Reply
from gateway.contracts.ports import Clock, PendingReply, Scrubber

AGAIN: Final = ":anew"
"""Ends the send id of a message that takes the place of one which is gone."""


class TakenOver(Exception):
    """Another process delivers this reply now: not another word of it from us."""


class Page:
    """One reply and how far it came. `record` is what the ledger says, or will say with the next note."""

    def __init__(
        self,
        pending: PendingReply,
        channel: str,
        bus: Deliveries,
        scrubber: Scrubber,
        clock: Clock,
        patience: Patience,
    ) -> None:
        self.reply: Reply = pending.reply
        self.record: DeliveryRecord = pending.record
        self.is_whole = False
        """The next chunk is the file that holds the whole answer."""
        self._entry_id = pending.entry_id
        self._channel = channel
        self._bus = bus
        self._scrubber = scrubber
        self._clock = clock
        self._patience = patience

    @property
    def send_id(self) -> str:
        """The same for every attempt at the next chunk; another one once the message that showed its draft is gone, or
        the platform would take what follows for that one. The whole answer as a file is another message than the chunk
        in whose place it goes out."""
        step = "whole" if self.is_whole else self.record.next_chunk
        return f"{self.record.reply_id}:{step}{AGAIN if self._is_shown_gone else ''}"

    @property
    def shown(self) -> str:
        """The platform's id of the message that showed the draft of the next chunk; empty if there is none."""
        at, shown = self.record.next_chunk, self.record.shown
        return shown[at] if at < len(shown) else ""

    @property
    def _is_shown_gone(self) -> bool:
        return self.record.next_chunk < len(self.record.shown) and not self.shown

    @property
    def is_marked(self) -> bool:
        """True when the next chunk has to say that it may be a repetition."""
        return self.record.next_chunk in self.record.marked

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def amended(self) -> str:
        """The platform's id of the message that this reply takes the place of; empty if nobody knows any."""
        record = await self._patience.with_bus(lambda: self._bus.delivered(self.reply.key, self.reply.amends))
        return record.platform_ids[-1] if record.platform_ids else ""

    def arrived(self, ids: tuple[str, ...], *, spared: int = 0) -> None:
        """The next chunk is out, and with it so many behind it; the note that follows, or the end, says so."""
        next_chunk = self.record.next_chunk + 1 + spared
        self._change(next_chunk=next_chunk, platform_ids=self.record.platform_ids + ids, placeholder="")

    def lose_shown(self) -> None:
        """The message that showed the draft of the next chunk is gone; the note that follows says so."""
        at, shown = self.record.next_chunk, self.record.shown
        self._change(shown=(*shown[:at], "", *shown[at + 1 :]))

    def mark(self) -> None:
        """From now on the next chunk says that it may be a repetition; the note that follows keeps that."""
        self._change(marked=(*self.record.marked, self.record.next_chunk))

    async def note(self, state: DeliveryState, *, reason: str = "", **changes: Any) -> None:
        """Write the row, a platform's raw `reason` scrubbed. Waits for the bus; raises `TakenOver`, `Abandoned`."""
        if state is DeliveryState.SENDING and not self.record.begun_at_ms:
            changes["begun_at_ms"] = self.now_ms()
        self._change(state=state, reason=self._scrubber.scrub(reason), **changes)
        row = self.record
        if not await self._patience.with_bus(lambda: self._bus.record(self._channel, self._entry_id, row)):
            raise TakenOver

    async def finish(self, state: DeliveryState, *, reason: str = "") -> None:
        """Write the last state and the receipt, and drop the entry. Waits for the bus; raises `Abandoned`."""
        self._change(state=state, reason=self._scrubber.scrub(reason))
        receipt = Receipt(self.record, self.reply.key, self._channel)
        await self._patience.with_bus(lambda: self._bus.finish(self._channel, self._entry_id, receipt))

    def _change(self, **changes: Any) -> None:
        self.record = replace(self.record, updated_at_ms=self.now_ms(), **changes)
