"""One reply, chunk by chunk, with the ledger written before every platform call.

    pending -> sending -> sent | failed
                  |  retry      certainly not delivered: wait and send again
                  |  unknown    perhaps delivered: find out, then send again (or, if so configured, leave it)

A reply found in `sending` was interrupted by a crash, so it is unknown too. What the platform says is
turned into one of few moves by `next_move`, which is pure; one attempt is the business of `Sender`; the
courier goes on until the reply has an end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from channels.adapter import ChannelAdapter
from channels.backoff import jittered
from channels.homes import Homes
from channels.leases import Tenure
from channels.outbound.adopting import SETTLE_DELAYS_S, Adopting
from channels.outbound.choices import chunks_of
from channels.outbound.contents import Borrower, Contents
from channels.outbound.journey import YOUNG_S, GiveUp, Journey, next_move
from channels.outbound.lessons import Lessons
from channels.outbound.naming import TitleCourier
from channels.outbound.page import Page, TakenOver
from channels.outbound.sender import Dropped, Sender, SendRules
from channels.outbound.status import StatusCourier
from channels.outbound.withdrawing import Withdrawing
from channels.pacing import Pacer
from channels.patience import Abandoned, Patience
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Files
from gateway.bus.places import Places
from gateway.contracts.errors import (
    AddressDead,
    CredentialsRejected,
    DeliveryError,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryState, Reply
from gateway.contracts.ports import Clock, PendingReply, Scrubber

log = logging.getLogger(__name__)

_ENDED: Final = (DeliveryState.SENT, DeliveryState.FAILED)
_INTERRUPTED: Final = (DeliveryState.SENDING, DeliveryState.UNKNOWN)


class Courier:
    """Sends replies of one channel, but for status lines and titles: these are for its `statuses` and `titles`. Safe to
    use from many lanes at once."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        places: Places,
        files: Files,
        scrubber: Scrubber,
        clock: Clock,
        homes: Homes,
        tenure: Tenure,
        *,
        rules: SendRules,
        answering: Callable[[Reply], None] = lambda reply: None,
        delay_scale: float = 1.0,
    ) -> None:
        """`answering` is told just before the first chunk leaves; `delay_scale` shortens the waits of tests."""
        self._adapter = adapter
        self._bus = bus
        self._scrubber = scrubber
        self._homes = homes
        self._clock = clock
        self._answering = answering
        self._patience = Patience(scale=delay_scale)
        pacer = Pacer(bus, adapter, self._patience.wait)
        self._borrower = Borrower(files, self._patience)
        self._lessons = Lessons(adapter, places, pacer, self._patience, scrubber)
        self._adopting = Adopting(adapter, bus, places, self._patience)
        self._withdrawing = Withdrawing(adapter)
        self._sender = Sender(adapter, places, pacer, self._patience, tenure, rules)
        self.titles = TitleCourier(adapter, bus, places, homes, pacer, self._patience, scrubber, clock)
        self.statuses = StatusCourier(adapter, bus, homes, self._sender, self._lessons, self._patience, scrubber, clock)

    def abandon_waits(self) -> None:
        """From now on a reply that would have to wait raises `Abandoned` instead."""
        self._patience.end()

    async def deliver(self, pending: PendingReply) -> None:
        """Bring one reply to its end and write the receipt.

        Raises `CredentialsRejected`, `Abandoned`, and `TakenOver` when it is another process's reply by now.
        """
        page = Page(pending, self._adapter.name, self._bus, self._scrubber, self._clock, self._patience)
        state, reason = page.record.state, str(page.record.reason)
        if state not in _ENDED:
            state, reason = await self._try_all(page)
        if state is DeliveryState.FAILED:
            log.error("%s: reply %s failed: %s", self._adapter.name, page.reply.id, reason)
            await self._take_back(page, page.reply.address, behind=page.record.next_chunk)
        await page.finish(state, reason=reason)

    async def _try_all(self, page: Page) -> tuple[DeliveryState, str]:
        try:
            return await self._send_all(page)
        except (CredentialsRejected, Abandoned, TakenOver):
            raise
        except Exception as error:  # one reply that cannot even be tried must not block its lane
            log.exception("%s: reply %s cannot be delivered", self._adapter.name, page.reply.id)
            return DeliveryState.FAILED, f"unforeseen {type(error).__name__}"

    async def _send_all(self, page: Page) -> tuple[DeliveryState, str]:
        address = await self._patience.with_bus(lambda: self._homes.newest(page.reply.address))
        outlook = await self._lessons.outlook(address)
        was_cut = page.record.state in _INTERRUPTED
        await self._adopting.adopt(page, address)
        texts = await chunks_of(page.reply, self._adapter)
        contents = Contents(self._adapter, page.reply, texts, self._borrower, shown=len(page.record.shown))
        if outlook.dead_because and not was_cut:
            return DeliveryState.FAILED, f"not tried, because of an earlier refusal: {outlook.dead_because}"
        page.record = replace(page.record, chunks=len(contents))
        journey = Journey(
            address,
            attempt=page.record.attempt,
            is_unsure=was_cut,
            is_careful=was_cut or outlook.is_account_unsure,
        )
        if not was_cut:  # else the state has to stay until the chunk in question is settled
            await self._sender.remember(page, address)
        left_at: list[str] = []
        while page.record.next_chunk < len(contents):
            if page.record.next_chunk == contents.texts:
                await self._take_back(page, journey.address, behind=contents.texts)
            journey = replace(journey, carries_file=contents.carries_file(page.record.next_chunk))
            try:
                sent = await self._send_chunk(page, contents, journey)
            except Dropped:
                left_at.append(str(page.record.next_chunk + 1))
                if page.reply.choices:  # nobody is to press a button below what may not have arrived
                    break
                page.arrived((), spared=contents.spared if page.is_whole else 0)
                journey = journey.next_chunk()
                continue
            if isinstance(sent, GiveUp):
                return DeliveryState.FAILED, sent.reason
            ids, journey = sent
            page.arrived(ids, spared=contents.spared if page.is_whole else 0)
            await self._sender.remember(page, journey.address)
            journey = journey.next_chunk()
        await self._take_back(page, journey.address, behind=contents.texts)
        if left_at:
            return DeliveryState.UNKNOWN, f"nobody knows whether message {', '.join(left_at)} of it arrived"
        return DeliveryState.SENT, ""

    async def _send_chunk(
        self, page: Page, contents: Contents, journey: Journey
    ) -> tuple[tuple[str, ...], Journey] | GiveUp:
        since_ms = page.record.begun_at_ms if journey.is_unsure else self._clock.now_ms()
        leaving = self._leaving(page)
        while True:
            page.is_whole = contents.is_whole(page.record.next_chunk, journey)
            try:
                async with contents.chunk(page.record.next_chunk, journey) as chunk:
                    ids = await self._sender.attempt(page, chunk, journey, since_ms=since_ms, leaving=leaving)
            except CredentialsRejected as error:
                state = DeliveryState.UNKNOWN if journey.is_unsure else DeliveryState.RETRY
                await page.note(state, reason=str(error), attempt=journey.attempt)
                raise
            except DeliveryError as error:
                move = next_move(error, journey, is_young=page.now_ms() - page.reply.created_at_ms < YOUNG_S * 1000)
                if not (journey.carries_file and isinstance(error, AddressDead)):
                    await self._lessons.learn(error, journey.address)
                if isinstance(move, GiveUp):
                    return move
                log.warning("%s: reply %s: %s", self._adapter.name, page.reply.id, error)
                state = DeliveryState.UNKNOWN if move.journey.is_unsure else move.state
                await page.note(state, reason=str(error), attempt=move.journey.attempt)
                if move.is_exact:
                    await self._patience.wait(move.wait_s)
                else:
                    await self._patience.back_off(jittered(move.wait_s))
                journey = move.journey
            else:
                return ids, journey

    async def _take_back(self, page: Page, address: ReplyAddress, *, behind: int) -> None:
        """Of what showed the draft, whatever has not become a chunk of the reply."""
        for message_id in filter(None, page.record.shown[behind:]):
            for delay_s in SETTLE_DELAYS_S:
                try:
                    await self._withdrawing.take_back(address, message_id, page.reply.language)
                except (RateLimited, SendFailed, OutcomeUnknown) as error:
                    log.warning("%s: reply %s: %s", self._adapter.name, page.reply.id, error)
                    await self._patience.back_off(jittered(delay_s))
                except DeliveryError as error:
                    log.warning("%s: a draft of reply %s stays: %s", self._adapter.name, page.reply.id, error)
                    break
                else:
                    break
        page.record = replace(page.record, shown=page.record.shown[:behind])

    def _leaving(self, page: Page) -> Callable[[], None]:
        """The indicator goes out with the first chunk."""
        return (lambda: None) if page.record.next_chunk else (lambda: self._answering(page.reply))
