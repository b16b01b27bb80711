"""One attempt at one chunk: find what an earlier attempt left, or send, in a way that can be repeated if need be.

shown? ── a message that showed its draft, edit it ──────▶ done
   ▼
a file? ── where that is a step of its own: put up, its name in the ledger
   ▼
unsure? ── looked up, found ─────────────────────────────▶ done
   │    ── one lost message of ours ── edit it ──────────▶ done
   │    ── nobody can say ── mark | resend | drop
   ▼
careful? ── placeholder, its id in the ledger, edit ─────▶ done
   └─────── send ───────────────────────────────────────▶ done
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from channels.adapter import (
    MARK,
    AnyChunk,
    ChannelAdapter,
    SupportsChoices,
    SupportsLookup,
    SupportsPlaceholders,
    SupportsStreaming,
    SupportsUploads,
)
from channels.leases import Tenure
from channels.outbound.journey import Journey
from channels.outbound.page import Page
from channels.outbound.withdrawing import Withdrawing
from channels.pacing import Pacer
from channels.patience import Patience
from gateway.bus.places import Places
from gateway.config.channels import PlaceholderUse, UnknownSends
from gateway.contracts.errors import (
    AddressDead,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    SendFailed,
    Untraceable,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryState
from gateway.words import words_for

log = logging.getLogger(__name__)

SENDS_MAX: Final = 64  # platform calls at once; each holds one HTTP connection
TENURE_LOOK_S: Final = 0.1
ON_ITS_WAY: Final = "?"
"""In the ledger instead of a placeholder's id while it is sent: nothing but a placeholder can be out."""

_T = TypeVar("_T")


class Dropped(Exception):
    """The chunk may have arrived, and the operator wants it left at that."""


class Crowded(Exception):
    """Answers need what there is of the budgets."""


@dataclass(frozen=True, slots=True)
class SendRules:
    """What the configuration says about sends that may have arrived."""

    unknown_sends: UnknownSends = UnknownSends.MARK
    placeholder: PlaceholderUse = PlaceholderUse.AUTO


class Sender:
    """Brings the next chunk of a page out. Safe to use from many lanes at once."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        places: Places,
        pacer: Pacer,
        patience: Patience,
        tenure: Tenure,
        rules: SendRules,
    ) -> None:
        self._adapter = adapter
        self._places = places
        self._pacer = pacer
        self._patience = patience
        self._tenure = tenure
        self._rules = rules
        self._withdrawing = Withdrawing(adapter)
        self._calls = asyncio.Semaphore(SENDS_MAX)
        self._editing = adapter if isinstance(adapter, SupportsPlaceholders) else None
        self._asking = adapter if isinstance(adapter, SupportsLookup) else None
        self._amending = adapter if isinstance(adapter, SupportsChoices) else None
        self._uploading = adapter if isinstance(adapter, SupportsUploads) else None
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None

    async def attempt(
        self, page: Page, chunk: AnyChunk, journey: Journey, *, since_ms: int, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        """The platform's ids of the chunk. Raises the `DeliveryError` tree and `Dropped`.

        `since_ms` is when the first attempt began; `leaving` is told just before something goes out.
        """
        await self._adapter.until_ready()
        if page.reply.amends:
            return await self._amend(page, chunk, journey, leaving)
        if page.shown:
            return await self._make_it(page, chunk, journey, leaving)
        if self._uploading is not None and journey.carries_file:
            return await self._by_uploading(self._uploading, page, chunk, journey, since_ms, leaving)
        if self._editing is None:
            ids = await self._recovered(page, chunk, journey, since_ms) if journey.is_unsure else None
            return ids or await self._send(page, chunk, journey, leaving)
        return await self._by_editing(self._editing, page, chunk, journey, leaving)

    async def attempt_status(self, page: Page, chunk: AnyChunk, address: ReplyAddress) -> tuple[str, ...]:
        """The same for a status line, which spends only what answers leave over. Raises `Crowded` if that is nothing,
        and the `DeliveryError` tree."""
        await self._adapter.until_ready()
        amending, message_id = self._amending, await page.amended() if page.reply.amends else ""
        if page.reply.amends and not message_id:
            return ()
        budgets = self._adapter.budgets(address)
        if not await self._patience.with_bus(lambda: self._pacer.may_spend(budgets)):
            raise Crowded
        await self._note_sending(page, attempt=page.record.attempt, placeholder="")
        if amending is None or not message_id:
            return await self._called(
                page, lambda: self._adapter.send(address, chunk, send_id=page.send_id, plain=False)
            )
        await self._asked(lambda: amending.amend(address, chunk, message_id=message_id, plain=False))
        return ()

    async def find_status(self, page: Page, chunk: AnyChunk, address: ReplyAddress) -> tuple[str, ...] | None:
        """What an earlier attempt at a status line left. None: sending it again cannot show it twice. Raises
        `Untraceable` where nobody can say, and the rest of the `DeliveryError` tree."""
        await self._adapter.until_ready()
        asking, since_ms = self._asking, page.record.begun_at_ms
        if asking is not None:
            return await self._asked(lambda: asking.find_sent(address, chunk, send_id=page.send_id, since_ms=since_ms))
        lost = None if self._editing is None else await self._lost(self._editing, page, chunk, address)
        if lost is None:
            raise Untraceable("nobody knows whether it arrived")
        return (lost,)

    async def remember(self, page: Page, address: ReplyAddress) -> None:
        """What arrived is ours, so no look-up for another reply may take it for a lost one.

        The reply's own row says so first: a crash in between must leave neither a message that nobody knows, nor
        one that is known and yet looked for.
        """
        if self._editing is None or not page.record.platform_ids:
            return
        place, ids = self._editing.place(address), page.record.platform_ids
        await page.note(DeliveryState.PENDING)
        await self._patience.with_bus(lambda: self._places.note_sent(place, ids))

    async def _amend(
        self, page: Page, chunk: AnyChunk, journey: Journey, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        """What became of such an edit need not be known: it is repeated. What was never sent, or is gone, stays so."""
        message_id = await page.amended()
        amending = self._amending
        if message_id and amending is not None:
            await self._about_to_call(page, journey, placeholder="")
            leaving()
            await self._asked(
                lambda: amending.amend(journey.address, chunk, message_id=message_id, plain=journey.is_plain)
            )
        return ()

    # --- where its draft was shown

    async def _make_it(
        self, page: Page, chunk: AnyChunk, journey: Journey, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        """Make the message that showed the draft the chunk itself. This may be repeated; once somebody has deleted the
        message, or it cannot be changed any more, the chunk is sent."""
        message_id = page.shown
        await self._about_to_call(page, journey, placeholder="")
        leaving()
        if not await self._is_made(page, chunk, journey):
            await self._put_away(page, journey.address)
            page.lose_shown()
            await page.note(DeliveryState.RETRY)
            raise SendFailed("the message that showed the draft is gone, or nobody may change it")
        return (message_id,)

    async def _is_made(self, page: Page, chunk: AnyChunk, journey: Journey) -> bool:
        """False also where changes are refused for good: that says nothing of what is sent."""
        address, message_id, streaming, amending = journey.address, page.shown, self._streaming, self._amending
        if streaming is None or amending is None:
            return False
        try:
            await self._asked(lambda: streaming.end_stream(address, message_id=message_id))
            return await self._asked(
                lambda: amending.amend(address, chunk, message_id=message_id, plain=journey.is_plain)
            )
        except (AddressDead, FormatRefused) as error:
            if isinstance(error, FormatRefused) and not journey.is_plain:
                raise
            log.warning("%s: what showed reply %s cannot be changed: %s", self._adapter.name, page.reply.id, error)
            return False

    async def _put_away(self, page: Page, address: ReplyAddress) -> None:
        """What shows half of an answer that is going to be sent as a whole, if it is there and we may."""
        message_id = page.shown
        try:
            await self._asked(lambda: self._withdrawing.take_back(address, message_id, page.reply.language))
        except (AddressDead, FormatRefused) as error:
            log.warning("%s: a draft of reply %s stays: %s", self._adapter.name, page.reply.id, error)

    # --- where the platform can be asked

    async def _recovered(self, page: Page, chunk: AnyChunk, journey: Journey, since_ms: int) -> tuple[str, ...] | None:
        if self._asking is not None:
            asking, address = self._asking, journey.address
            try:
                return await self._asked(
                    lambda: asking.find_sent(address, chunk, send_id=page.send_id, since_ms=since_ms)
                )
            except Untraceable as error:
                log.warning("%s: reply %s cannot be looked up: %s", self._adapter.name, page.reply.id, error)
        await self._decide(page)
        return None

    # --- where a file is put up first

    async def _by_uploading(
        self,
        uploading: SupportsUploads,
        page: Page,
        chunk: AnyChunk,
        journey: Journey,
        since_ms: int,
        leaving: Callable[[], None],
    ) -> tuple[str, ...]:
        """Its name is in the ledger before it is shown, so a look-up asks for this file and for no other. One whose
        fate nobody knows is put up anew: what is shown twice would be refused."""
        if journey.is_unsure and page.record.placeholder:
            earlier = uploading.uploaded(chunk, page.record.placeholder)
            ids = await self._recovered(page, earlier, journey, since_ms)
            if ids:
                return ids
        upload_id = await self._asked(lambda: uploading.upload(journey.address, chunk))
        shown = uploading.uploaded(chunk, upload_id)
        return await self._send(page, shown, journey, leaving, placeholder=upload_id)

    # --- where it lets us edit

    async def _by_editing(
        self, editing: SupportsPlaceholders, page: Page, chunk: AnyChunk, journey: Journey, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        address = journey.address
        if journey.is_unsure and page.record.placeholder in ("", ON_ITS_WAY):
            await self._find_lost(editing, page, chunk, address)
        if page.record.placeholder in ("", ON_ITS_WAY):
            if not self._is_careful(journey):
                return await self._send(page, chunk, journey, leaving)
            await self._about_to_call(page, journey, placeholder=ON_ITS_WAY)
            leaving()
            message_id = await self._called(page, lambda: editing.put_placeholder(address))
            await page.note(DeliveryState.SENDING, placeholder=message_id)
        return await self._complete(editing, page, chunk, journey)

    async def _find_lost(
        self, editing: SupportsPlaceholders, page: Page, chunk: AnyChunk, address: ReplyAddress
    ) -> None:
        """Adopt what an earlier attempt left, or decide what follows when that cannot be known."""
        lost = await self._lost(editing, page, chunk, address)
        if lost is not None:
            await page.note(DeliveryState.SENDING, placeholder=lost)
        elif page.record.placeholder == ON_ITS_WAY:
            await page.note(DeliveryState.RETRY, placeholder="")  # a second placeholder says nothing twice
        else:
            await self._decide(page)

    async def _lost(
        self, editing: SupportsPlaceholders, page: Page, chunk: AnyChunk, address: ReplyAddress
    ) -> str | None:
        """The one message of ours there that nothing knows of."""
        place = editing.place(address)
        noted = await self._patience.with_bus(lambda: self._places.sent_lately(place))
        earlier = page.record.platform_ids
        return await self._asked(
            lambda: editing.find_lost(address, chunk, after=earlier[-1] if earlier else "", known=noted | {*earlier})
        )

    async def _complete(
        self, editing: SupportsPlaceholders, page: Page, chunk: AnyChunk, journey: Journey
    ) -> tuple[str, ...]:
        """Edit the placeholder into the chunk. What became of an edit need not be known: it is repeated."""
        message_id = page.record.placeholder
        shown = self._shown(page, chunk)
        await self._about_to_call(page, journey, placeholder=message_id)
        is_there = await self._asked(
            lambda: editing.complete(journey.address, shown, message_id=message_id, plain=journey.is_plain)
        )
        if not is_there:  # somebody deleted it: nothing of this chunk is to be seen
            await page.note(DeliveryState.RETRY, placeholder=ON_ITS_WAY)
            raise SendFailed("the placeholder is gone")
        return (message_id,)

    def _is_careful(self, journey: Journey) -> bool:
        match self._rules.placeholder:
            case PlaceholderUse.ALWAYS:
                return True
            case PlaceholderUse.NEVER:
                return False
            case PlaceholderUse.AUTO:
                return journey.is_careful

    # --- both

    async def _send(
        self, page: Page, chunk: AnyChunk, journey: Journey, leaving: Callable[[], None], *, placeholder: str = ""
    ) -> tuple[str, ...]:
        shown = self._shown(page, chunk)
        await self._about_to_call(page, journey, placeholder=placeholder)
        leaving()
        return await self._called(
            page, lambda: self._adapter.send(journey.address, shown, send_id=page.send_id, plain=journey.is_plain)
        )

    async def _decide(self, page: Page) -> None:
        """An earlier attempt may have arrived and nobody can say: what the operator chose."""
        if self._rules.unknown_sends is UnknownSends.DROP:
            raise Dropped
        if page.is_marked:
            return
        log.warning("%s: reply %s may be seen twice", self._adapter.name, page.reply.id)
        await self._patience.with_bus(lambda: self._places.count_ambiguous(self._adapter.name))
        if self._rules.unknown_sends is UnknownSends.MARK:
            page.mark()

    async def _about_to_call(self, page: Page, journey: Journey, *, placeholder: str) -> None:
        """Wait until the budgets allow a call, then write down that it is being made."""
        budgets = self._adapter.budgets(journey.address)
        await self._patience.with_bus(lambda: self._pacer.wait(budgets))
        await self._note_sending(page, attempt=journey.attempt, placeholder=placeholder)

    async def _note_sending(self, page: Page, *, attempt: int, placeholder: str) -> None:
        while not self._tenure.is_sure:  # the bus is away, or somebody else delivers by now and we shall be told
            await self._patience.wait(TENURE_LOOK_S)
        await page.note(DeliveryState.SENDING, attempt=attempt, placeholder=placeholder)

    def _shown(self, page: Page, chunk: AnyChunk) -> AnyChunk:
        return self._adapter.marked(chunk, words_for(page.reply.language).say(MARK)) if page.is_marked else chunk

    async def _called(self, page: Page, call: Callable[[], Awaitable[_T]]) -> _T:
        """A call that sends something: whatever an SDK throws, it may have gone out."""
        try:
            async with self._calls:
                return await call()
        except DeliveryError:
            raise
        except Exception as error:  # named boundary, delivery attempt
            log.exception("%s: reply %s: unforeseen error", self._adapter.name, page.reply.id)
            raise OutcomeUnknown(f"unforeseen {type(error).__name__}") from error

    async def _asked(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """A call that may be repeated: an answer that got lost is asked for again."""
        try:
            async with self._calls:
                return await call()
        except OutcomeUnknown as error:
            raise SendFailed(str(error)) from error
        except DeliveryError:
            raise
        except Exception as error:  # named boundary, delivery attempt
            log.exception("%s: unforeseen error", self._adapter.name)
            raise SendFailed(f"unforeseen {type(error).__name__}") from error
