"""One attempt to deliver one chunk: the ledger entry, the call, and the consequence of a refusal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final, TypeVar

from channels.core.adapter import (
    MARK,
    AnyChunk,
    ChannelAdapter,
    SupportsChoices,
    SupportsLookup,
    SupportsPlaceholders,
    SupportsRemoval,
    SupportsStreaming,
    SupportsUploads,
)
from channels.core.lease import LeaseValidity
from channels.core.notices import WITHDRAWN
from channels.core.rate_limit import BackoffTimer, Urgency, place_of, token_wishes
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.config.channels import PlaceholderUse, UnknownSends
from gateway.contracts import errors
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Preview, Receipt, Reply, literal_text
from gateway.contracts.ports import Beginning, Clock, Destination, PendingReply, SendAttempt, SentMessages, TokenWish
from gateway.i18n import words_for
from gateway.limits import DELIVERY_ATTEMPTS_MAX
from gateway.scrub import Scrubber

log = logging.getLogger(__name__)

RETRY_DELAYS_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 30.0, 30.0, 60.0, 60.0, 120.0, 300.0, 600.0)
"""Someone is waiting, so the first minute has six attempts; all together outlast an outage of twenty minutes."""
YOUNG_S: Final = 1_200.0  # no reply is given up before: platforms and processes may be away for so long
YOUNG_DELAY_MAX_S: Final = 60.0  # attempts that deaths of ours have spent must not make its reader wait
RATE_LIMITS_MAX: Final = 200  # a 429 is flow control, no failure; yet a bucket that never opens must end
MOVES_MAX: Final = 3  # a chat that moves more often is a loop
REJECTIONS_MAX: Final = 4  # of the token, in a row: a single one may be a hiccup of the platform or of a proxy


@dataclass(frozen=True, slots=True)
class ChunkAttempt:
    """The state of one chunk: its address, its form, and the tries so far.

    `is_unsure`: an earlier attempt may have arrived. `is_careful`: sends of this account get lost now, so the chunk
    goes out in a way that can be repeated, where the platform has one. `carries_file`: the chunk is a file; if the
    platform refuses it, a sentence takes its place."""

    address: ReplyAddress
    attempt: int = 0
    is_plain: bool = False
    is_unsure: bool = False
    is_careful: bool = False
    carries_file: bool = False
    rate_limits: int = 0
    rejections: int = 0
    moves: int = 0

    def next_chunk(self) -> ChunkAttempt:
        """Go on to the next chunk after this one arrived, with the same address and the same caution."""
        return replace(self, is_plain=False, is_unsure=False, carries_file=False, rate_limits=0, rejections=0)


@dataclass(frozen=True, slots=True)
class RetryChunk:
    """Send the chunk again as `chunk_attempt` says, after `wait_s`; the ledger says `state` meanwhile.

    A platform's own `retry_after_s` is exact; a back-off of ours gets jitter."""

    chunk_attempt: ChunkAttempt
    wait_s: float
    state: DeliveryState
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class FailReply:
    """This reply cannot be delivered, for a reason fit for the operator."""

    reason: str


def next_move(
    error: errors.DeliveryError, chunk_attempt: ChunkAttempt, *, is_young: bool = False
) -> RetryChunk | FailReply:
    """Decide what follows from a platform's refusal. Pure; without jitter.

    A reply that `is_young` is never given up: processes that die spend its attempts faster than an outage ends."""
    match error:
        case errors.RateLimited():
            waited = replace(chunk_attempt, rate_limits=chunk_attempt.rate_limits + 1)
            if waited.rate_limits >= RATE_LIMITS_MAX:
                return FailReply(f"rate limited {waited.rate_limits} times in a row")
            return RetryChunk(waited, error.retry_after_s, DeliveryState.RETRY, is_exact=True)
        case errors.CredentialsRejected():
            rejected = replace(chunk_attempt, rejections=chunk_attempt.rejections + 1)
            return RetryChunk(rejected, RETRY_DELAYS_S[chunk_attempt.rejections], DeliveryState.RETRY)
        case errors.AddressMoved():
            moved = replace(chunk_attempt, address=error.address, moves=chunk_attempt.moves + 1)
            return FailReply("the chat keeps moving") if moved.moves > MOVES_MAX else _at_once(moved)
        case errors.FormatRefused() | errors.AddressDead() if chunk_attempt.carries_file:
            # Its text has just been taken here. If the place is dead by now, the sentence will meet that.
            return _at_once(replace(chunk_attempt, carries_file=False))
        case errors.FormatRefused():
            if chunk_attempt.is_plain:
                return FailReply(f"refused even as plain text: {error}")
            return _at_once(replace(chunk_attempt, is_plain=True))
        case errors.AddressDead():
            return FailReply(str(error))
        case errors.OutcomeUnknown():
            unsure = replace(chunk_attempt, is_unsure=True, is_careful=True)
            return _later(unsure, error, DeliveryState.UNKNOWN, is_young=is_young)
        case _:
            return _later(chunk_attempt, error, DeliveryState.RETRY, is_young=is_young)


def _at_once(chunk_attempt: ChunkAttempt) -> RetryChunk:
    return RetryChunk(chunk_attempt, 0.0, DeliveryState.RETRY)


def _later(
    chunk_attempt: ChunkAttempt, error: errors.DeliveryError, state: DeliveryState, *, is_young: bool
) -> RetryChunk | FailReply:
    tried = replace(chunk_attempt, attempt=chunk_attempt.attempt + 1)
    if tried.attempt >= DELIVERY_ATTEMPTS_MAX and not is_young:
        return FailReply(f"gave up after {tried.attempt} attempts: {error}")
    delay_s = RETRY_DELAYS_S[min(tried.attempt, len(RETRY_DELAYS_S)) - 1]
    return RetryChunk(tried, min(delay_s, YOUNG_DELAY_MAX_S) if is_young else delay_s, state)


# The ledger's entry of one reply in hand: written before each platform call, refused once another process has it.

AGAIN: Final = ":anew"
"""Ends the send id of a message that takes the place of one which is gone."""
_INTERRUPTED: Final = (DeliveryState.SENDING, DeliveryState.UNKNOWN)
_NO_REASON: Final = literal_text("")


class TakenOver(Exception):
    """Another process delivers this reply now: we send nothing more of it."""


class PreviewChanged(Exception):
    """A process that was suspended has begun one more message for the draft since we looked."""


class DeliveryEntry:
    """One reply and how far it came. `record` is the ledger's row, with the changes that the next note will write;
    nobody has read it before the first beginning or look."""

    def __init__(
        self,
        pending: PendingReply,
        channel: str,
        bus: Deliveries,
        scrubber: Scrubber,
        clock: Clock,
        backoff: BackoffTimer,
    ) -> None:
        self.reply: Reply = pending.reply
        self.record: DeliveryRecord = pending.record
        self.is_whole = False
        """The next chunk is the file that holds the whole answer."""
        self.has_begun = False
        """The ledger says that the next chunk is being sent, and nobody has called the platform yet."""
        self.is_searched = False
        """What earlier attempts at the next chunk left has been looked for, and none has got lost since."""
        self._is_read = False
        self._adopted: tuple[Preview, bytes] | None = None
        self._arrived: SentMessages | None = None
        self._amended: str | None = None
        self._entry_id = pending.entry_id
        self._channel = channel
        self._bus = bus
        self._scrubber = scrubber
        self._clock = clock
        self._backoff = backoff

    @property
    def send_id(self) -> str:
        """Return an id that is the same for every attempt at the next chunk. It changes once the message that showed
        the chunk's draft is gone, because the platform would otherwise take the new message for the old one. The whole
        answer as a file is another message than the chunk in whose place it goes out."""
        step = "whole" if self.is_whole else self.record.next_chunk
        return f"{self.record.reply_id}:{step}{AGAIN if self._is_shown_gone else ''}"

    @property
    def shown(self) -> str:
        """Return the platform's id of the message that showed the draft of the next chunk; empty if there is none."""
        at, shown = self.record.next_chunk, self.record.shown
        return shown[at] if at < len(shown) else ""

    @property
    def _is_shown_gone(self) -> bool:
        return self.record.next_chunk < len(self.record.shown) and not self.shown

    @property
    def is_interrupted(self) -> bool:
        """Tell whether an attempt was cut off, so that the next chunk may be out."""
        return self.record.state in _INTERRUPTED and not self.has_begun

    @property
    def is_marked(self) -> bool:
        """Tell whether the next chunk has to say that it may be a repetition."""
        return self.record.next_chunk in self.record.marked

    @property
    def age_s(self) -> float:
        """Return the seconds since the reply was made."""
        return (self._clock.now_ms() - self.reply.created_at_ms) / 1000

    async def amended(self) -> str:
        """Find the platform's id of the message that this reply replaces; empty if nobody knows any."""
        if self._amended is None:
            record = await self._backoff.with_bus(lambda: self._bus.delivered(self.reply.key, self.reply.amends))
            self._amended = record.platform_ids[-1] if record.platform_ids else ""
        return self._amended

    def arrived(self, ids: tuple[str, ...], *, spared: int = 0) -> None:
        """Record that the next chunk is out, and with it the `spared` chunks that follow; the next note, or the end,
        writes it down."""
        next_chunk = self.record.next_chunk + 1 + spared
        self._change(next_chunk=next_chunk, platform_ids=self.record.platform_ids + ids, placeholder="")

    def remember(self, place: str) -> None:
        """Have the next note, or the end, remember what has arrived as messages of ours in this place."""
        self._arrived = SentMessages(place, self.record.platform_ids) if self.record.platform_ids else None

    def adopt(self, shown: tuple[str, ...], preview: Preview, row: bytes) -> None:
        """Make the messages of a preview, found as this row, the reply's own: the next beginning writes it down."""
        self.record = replace(self.record, shown=shown)
        self._adopted = preview, row

    def lose_shown(self) -> None:
        """Record that the message that showed the draft of the next chunk is gone; the next note writes it down."""
        at, shown = self.record.next_chunk, self.record.shown
        self._change(shown=(*shown[:at], "", *shown[at + 1 :]))

    def mark(self) -> None:
        """Mark the next chunk as a possible repetition; the next note writes it down."""
        self._change(marked=(*self.record.marked, self.record.next_chunk))

    async def look(self) -> None:
        """Read the row. Waits for the bus; raises `Abandoned`."""
        row = await self._backoff.with_bus(lambda: self._bus.delivered(self.reply.key, self.reply.id))
        self.record = replace(row, published_at_ms=self.record.published_at_ms)
        self._is_read = True

    def forget(self) -> None:
        """Forget the row: the next beginning reads it anew."""
        self.record = DeliveryRecord(self.reply.id, DeliveryState.PENDING, published_at_ms=self.record.published_at_ms)
        self._is_read, self._adopted = False, None

    async def begin(
        self, destination: Destination, wishes: tuple[TokenWish, ...], *, looks: bool = False, **changes: Any
    ) -> Beginning:
        """Write that the next chunk is being sent, if its tokens are there; the first time only if nothing is known of
        the reply, otherwise the row is read. Waits for the bus; raises `TakenOver`, `Abandoned`, `PreviewChanged`."""
        now_ms, is_first, row = self._clock.now_ms(), not self._is_read, self._adopted[1] if self._adopted else b""
        begun_at_ms = self.record.begun_at_ms or now_ms
        sending = replace(
            self.record,
            state=DeliveryState.SENDING,
            reason=_NO_REASON,
            updated_at_ms=now_ms,
            begun_at_ms=begun_at_ms,
            **changes,
        )
        attempt = SendAttempt(
            token_hex(8), self.reply.id, destination, None if looks else sending, wishes, is_first, row
        )
        beginning = await self._backoff.with_bus(lambda: self._bus.begin(self._channel, self._entry_id, attempt))
        if beginning is None:
            raise TakenOver
        if not beginning.has_begun and not beginning.wait_s and not is_first:
            raise PreviewChanged
        if not beginning.wait_s:
            self.record, self._is_read, self.has_begun = beginning.record, True, beginning.has_begun
        if beginning.has_begun:
            self._adopted = None
        return beginning

    async def note(self, state: DeliveryState, *, reason: str = "", **changes: Any) -> None:
        """Write the row, a platform's raw `reason` scrubbed. Waits for the bus; raises `TakenOver`, `Abandoned`."""
        self.has_begun = False
        self._change(state=state, reason=self._scrubber.scrub(reason), **changes)
        row, sent = self.record, self._arrived
        if not await self._backoff.with_bus(lambda: self._bus.record(self._channel, self._entry_id, row, sent=sent)):
            raise TakenOver
        self._arrived = None

    async def finish(self, state: DeliveryState, *, reason: str = "") -> None:
        """Write the last state and the receipt, and drop the entry. Waits for the bus; raises `Abandoned`."""
        self._change(state=state, reason=self._scrubber.scrub(reason))
        receipt, sent = Receipt(self.record, self.reply.key, self._channel), self._arrived
        await self._backoff.with_bus(lambda: self._bus.finish(self._channel, self._entry_id, receipt, sent=sent))
        if self._adopted is not None:  # nothing was sent: its messages were taken back
            preview, _ = self._adopted
            await self._backoff.with_bus(lambda: self._bus.drop_preview(self._channel, preview))

    def _change(self, **changes: Any) -> None:
        self.record = replace(self.record, updated_at_ms=self._clock.now_ms(), **changes)


# A message that showed a draft is removed if no answer follows; where nothing can be removed, its text says so.


class PreviewRemover:
    """Removes previews on one platform. Raises the `DeliveryError` tree; may be asked again."""

    def __init__(self, adapter: ChannelAdapter) -> None:
        self._adapter = adapter
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None
        self._deleting = adapter if isinstance(adapter, SupportsRemoval) else None
        self._amending = adapter if isinstance(adapter, SupportsChoices) else None

    async def take_back(self, address: ReplyAddress, message_id: str, language: str = "") -> None:
        """Remove a message or empty it: when this returns, nothing of what it showed can be seen; `language` is its
        reader's, if known."""
        if self._streaming is not None:
            await self._streaming.end_stream(address, message_id=message_id)
        if self._deleting is not None and await self._deleting.withdraw(address, message_id=message_id):
            return
        if self._amending is not None:
            (chunk,) = self._adapter.chunks(words_for(language).say(WITHDRAWN))
            await self._amending.amend(address, chunk, message_id=message_id, plain=False)


# One attempt at one chunk: find what an earlier attempt left, or send, in a way that can be repeated if need be.
#
# shown? ── a message that showed its draft, edit it ──────▶ done
#    ▼
# a file? ── where that is a step of its own: uploaded, its name in the ledger
#    ▼
# unsure? ── looked up, found ─────────────────────────────▶ done
#    │    ── one lost message of ours ── edit it ──────────▶ done
#    │    ── nobody can say ── mark | resend | drop
#    ▼
# careful? ── placeholder, its id in the ledger, edit ─────▶ done
#    └─────── send ───────────────────────────────────────▶ done

SENDS_MAX: Final = 64  # platform calls at once; each holds one HTTP connection
VALIDITY_LOOK_S: Final = 0.1
ON_ITS_WAY: Final = "?"
"""In the ledger instead of a placeholder's id while it is sent: nothing but a placeholder can be out."""

_T = TypeVar("_T")


class LeftUnconfirmed(Exception):
    """The chunk may have arrived, and the operator wants it left at that."""


class NoSpareBudget(Exception):
    """Answers need all that is left of the budgets."""


@dataclass(frozen=True, slots=True)
class SendRules:
    """The configuration of sends that may have arrived."""

    unknown_sends: UnknownSends = UnknownSends.MARK
    placeholder: PlaceholderUse = PlaceholderUse.AUTO


class ChunkSender:
    """Send the next chunk of an entry. Safe to use from many lanes at once."""

    def __init__(
        self, adapter: ChannelAdapter, places: Places, backoff: BackoffTimer, validity: LeaseValidity, rules: SendRules
    ) -> None:
        self._adapter = adapter
        self._places = places
        self._backoff = backoff
        self._validity = validity
        self._rules = rules
        self._remover = PreviewRemover(adapter)
        self._calls = asyncio.Semaphore(SENDS_MAX)
        self._editing = adapter if isinstance(adapter, SupportsPlaceholders) else None
        self._asking = adapter if isinstance(adapter, SupportsLookup) else None
        self._amending = adapter if isinstance(adapter, SupportsChoices) else None
        self._uploading = adapter if isinstance(adapter, SupportsUploads) else None
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None

    async def open(
        self,
        entry: DeliveryEntry,
        address: ReplyAddress,
        *,
        texts: int,
        files: int = 0,
        urgency: Urgency = Urgency.ANSWER,
    ) -> Beginning:
        """Read what is known of a reply of so many chunks and files. If that is nothing, and nothing speaks against its
        place or for more care, the attempt at its first chunk has begun with that.

        Raises `NoSpareBudget` for what may be left out."""
        await self._adapter.until_ready()
        is_careful = self._editing is not None and self._is_careful(ChunkAttempt(address))
        is_simple = texts > 0 and not is_careful and (not entry.reply.amends or bool(await entry.amended()))
        return await self._begin(entry, address, urgency, looks=not is_simple, chunks=texts + files, placeholder="")

    async def attempt(
        self,
        entry: DeliveryEntry,
        chunk: AnyChunk,
        chunk_attempt: ChunkAttempt,
        *,
        since_ms: int,
        leaving: Callable[[], None],
    ) -> tuple[str, ...]:
        """Send the chunk and return the platform's ids of it. Raises the `DeliveryError` tree, `LeftUnconfirmed` and
        `PreviewChanged`.

        `since_ms` is when the first attempt began; `leaving` is called just before something goes out."""
        if not entry.has_begun:
            await self._adapter.until_ready()
        if entry.reply.amends:
            return await self._amend(entry, chunk, chunk_attempt, leaving)
        if entry.shown:
            return await self._make_it(entry, chunk, chunk_attempt, leaving)
        if self._uploading is not None and chunk_attempt.carries_file:
            return await self._by_uploading(self._uploading, entry, chunk, chunk_attempt, since_ms, leaving)
        if self._editing is None:
            ids = await self._recovered(entry, chunk, chunk_attempt, since_ms) if chunk_attempt.is_unsure else None
            return ids or await self._send(entry, chunk, chunk_attempt, leaving)
        return await self._by_editing(self._editing, entry, chunk, chunk_attempt, leaving)

    async def attempt_status(self, entry: DeliveryEntry, chunk: AnyChunk, address: ReplyAddress) -> tuple[str, ...]:
        """Send a status line like `attempt`, but spend only the budget that answers leave over. Raises `NoSpareBudget`
        if that is nothing, and the `DeliveryError` tree."""
        amending, message_id = self._amending, await entry.amended() if entry.reply.amends else ""
        if entry.reply.amends and not message_id:
            return ()
        chunk_attempt = ChunkAttempt(address, attempt=entry.record.attempt)
        await self._about_to_call(entry, chunk_attempt, placeholder="", urgency=Urgency.EDIT)
        if amending is None or not message_id:
            return await self._called(
                entry, lambda: self._adapter.send(address, chunk, send_id=entry.send_id, plain=False)
            )
        await self._asked(lambda: amending.amend(address, chunk, message_id=message_id, plain=False))
        return ()

    async def find_status(self, entry: DeliveryEntry, chunk: AnyChunk, address: ReplyAddress) -> tuple[str, ...] | None:
        """Find the messages of an earlier attempt at a status line. None: sending it again cannot show it twice. Raises
        `Untraceable` where nobody can say, and the rest of the `DeliveryError` tree."""
        await self._adapter.until_ready()
        asking, since_ms = self._asking, entry.record.begun_at_ms
        if asking is not None:
            return await self._asked(lambda: asking.find_sent(address, chunk, send_id=entry.send_id, since_ms=since_ms))
        lost = None if self._editing is None else await self._lost(self._editing, entry, chunk, address)
        if lost is None:
            raise errors.Untraceable("nobody knows whether it arrived")
        return (lost,)

    async def remember(self, entry: DeliveryEntry, address: ReplyAddress, *, at_end: bool = False) -> None:
        """Remember the message that arrived as ours, so that no look-up for another reply may take it for a lost one:
        now, or together with the end of the reply."""
        if self._editing is None or not entry.record.platform_ids:
            return
        entry.remember(self._editing.place_id(address))
        if not at_end:
            await entry.note(DeliveryState.PENDING)

    async def _amend(
        self, entry: DeliveryEntry, chunk: AnyChunk, chunk_attempt: ChunkAttempt, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        """Change the message that this reply replaces. An edit with an unknown outcome is repeated, which does no harm.
        Nothing is sent for a message that was never sent or is gone."""
        message_id = await entry.amended()
        amending = self._amending
        if message_id and amending is not None:
            await self._about_to_call(entry, chunk_attempt, placeholder="")
            leaving()
            await self._asked(
                lambda: amending.amend(
                    chunk_attempt.address, chunk, message_id=message_id, plain=chunk_attempt.is_plain
                )
            )
        return ()

    # --- where its draft was shown

    async def _make_it(
        self, entry: DeliveryEntry, chunk: AnyChunk, chunk_attempt: ChunkAttempt, leaving: Callable[[], None]
    ) -> tuple[str, ...]:
        """Make the message that showed the draft the chunk itself. This may be repeated; once somebody has deleted the
        message, or it cannot be changed any more, the chunk is sent."""
        message_id = entry.shown
        await self._about_to_call(entry, chunk_attempt, placeholder="")
        leaving()
        if not await self._is_made(entry, chunk, chunk_attempt):
            await self._put_away(entry, chunk_attempt.address, message_id)
            entry.lose_shown()
            await entry.note(DeliveryState.RETRY)
            raise errors.SendFailed("the message that showed the draft is gone, or nobody may change it")
        return (message_id,)

    async def _is_made(self, entry: DeliveryEntry, chunk: AnyChunk, chunk_attempt: ChunkAttempt) -> bool:
        """Change the message that showed the draft into the chunk and tell whether that worked. False also where
        changes are refused for good: the platform may still take the chunk as a new message."""
        address, message_id, streaming, amending = chunk_attempt.address, entry.shown, self._streaming, self._amending
        if streaming is None or amending is None:
            return False
        try:
            await self._asked(lambda: streaming.end_stream(address, message_id=message_id))
            return await self._asked(
                lambda: amending.amend(address, chunk, message_id=message_id, plain=chunk_attempt.is_plain)
            )
        except (errors.AddressDead, errors.FormatRefused) as error:
            if isinstance(error, errors.FormatRefused) and not chunk_attempt.is_plain:
                raise
            log.warning("%s: what showed reply %s cannot be changed: %s", self._adapter.name, entry.reply.id, error)
            return False

    async def _put_away(self, entry: DeliveryEntry, address: ReplyAddress, message_id: str) -> None:
        """Take back the message that shows nothing or half of an answer that is going to be sent as a whole, if there
        is one and we may."""
        try:
            await self._asked(lambda: self._remover.take_back(address, message_id, entry.reply.language))
        except (errors.AddressDead, errors.FormatRefused) as error:
            log.warning("%s: a draft of reply %s stays: %s", self._adapter.name, entry.reply.id, error)

    # --- where the platform can be asked

    async def _recovered(
        self, entry: DeliveryEntry, chunk: AnyChunk, chunk_attempt: ChunkAttempt, since_ms: int
    ) -> tuple[str, ...] | None:
        if self._asking is not None:
            asking, address = self._asking, chunk_attempt.address
            try:
                return await self._asked(
                    lambda: asking.find_sent(address, chunk, send_id=entry.send_id, since_ms=since_ms)
                )
            except errors.Untraceable as error:
                log.warning("%s: reply %s cannot be looked up: %s", self._adapter.name, entry.reply.id, error)
        await self._decide(entry)
        return None

    # --- where a file is uploaded first

    async def _by_uploading(
        self,
        uploading: SupportsUploads,
        entry: DeliveryEntry,
        chunk: AnyChunk,
        chunk_attempt: ChunkAttempt,
        since_ms: int,
        leaving: Callable[[], None],
    ) -> tuple[str, ...]:
        """Upload the file, then send the message that shows it. Its name is in the ledger before it is shown, so a
        look-up asks for this file and for no other. A file is uploaded anew when the fate of the first upload is
        unknown: the platform would refuse to show one upload twice."""
        if chunk_attempt.is_unsure and entry.record.placeholder:
            earlier = uploading.uploaded(chunk, entry.record.placeholder)
            ids = await self._recovered(entry, earlier, chunk_attempt, since_ms)
            if ids:
                return ids
        upload_id = await self._asked(lambda: uploading.upload(chunk_attempt.address, chunk))
        shown = uploading.uploaded(chunk, upload_id)
        return await self._send(entry, shown, chunk_attempt, leaving, placeholder=upload_id)

    # --- where it lets us edit

    async def _by_editing(
        self,
        editing: SupportsPlaceholders,
        entry: DeliveryEntry,
        chunk: AnyChunk,
        chunk_attempt: ChunkAttempt,
        leaving: Callable[[], None],
    ) -> tuple[str, ...]:
        address = chunk_attempt.address
        if chunk_attempt.is_unsure and not entry.is_searched and entry.record.placeholder in ("", ON_ITS_WAY):
            await self._find_lost(editing, entry, chunk, address)
            entry.is_searched = True
        if entry.record.placeholder in ("", ON_ITS_WAY):
            if not self._is_careful(chunk_attempt):
                return await self._send(entry, chunk, chunk_attempt, leaving)
            await self._about_to_call(entry, chunk_attempt, placeholder=ON_ITS_WAY)
            leaving()
            message_id = await self._called(entry, lambda: editing.put_placeholder(address))
            await entry.note(DeliveryState.SENDING, placeholder=message_id)
        return await self._complete(editing, entry, chunk, chunk_attempt, leaving)

    async def _find_lost(
        self, editing: SupportsPlaceholders, entry: DeliveryEntry, chunk: AnyChunk, address: ReplyAddress
    ) -> None:
        """Adopt what an earlier attempt left, or decide what follows when that cannot be known."""
        lost = await self._lost(editing, entry, chunk, address)
        if lost is not None:
            await entry.note(DeliveryState.SENDING, placeholder=lost)
        elif entry.record.placeholder == ON_ITS_WAY:
            await entry.note(DeliveryState.RETRY, placeholder="")  # a second placeholder says nothing twice
        else:
            await self._decide(entry)

    async def _lost(
        self, editing: SupportsPlaceholders, entry: DeliveryEntry, chunk: AnyChunk, address: ReplyAddress
    ) -> str | None:
        """Find the one message of ours there that nothing knows of, after all that are known: nothing else is sent to
        the place before it is settled, and what lies in front was lost by an earlier reply."""
        place = editing.place_id(address)
        noted = await self._backoff.with_bus(lambda: self._places.sent_lately(place))
        known = noted | {*entry.record.platform_ids}
        return await self._asked(lambda: editing.find_lost(address, chunk, after=known, known=known))

    async def _complete(
        self,
        editing: SupportsPlaceholders,
        entry: DeliveryEntry,
        chunk: AnyChunk,
        chunk_attempt: ChunkAttempt,
        leaving: Callable[[], None],
    ) -> tuple[str, ...]:
        """Edit the placeholder into the chunk. What became of an edit need not be known: it is repeated. Where that
        cannot be, nothing of the chunk is to be seen, and it is sent: one more placeholder might fare no better."""
        message_id = entry.record.placeholder
        shown = self._shown(entry, chunk)
        await self._about_to_call(entry, chunk_attempt, placeholder=message_id)
        is_there = await self._asked(
            lambda: editing.complete(chunk_attempt.address, shown, message_id=message_id, plain=chunk_attempt.is_plain)
        )
        if not is_there:  # somebody deleted it, or the platform lets us edit nothing
            await self._put_away(entry, chunk_attempt.address, message_id)
            return await self._send(entry, chunk, chunk_attempt, leaving)
        return (message_id,)

    def _is_careful(self, chunk_attempt: ChunkAttempt) -> bool:
        match self._rules.placeholder:
            case PlaceholderUse.ALWAYS:
                return True
            case PlaceholderUse.NEVER:
                return False
            case PlaceholderUse.AUTO:
                return chunk_attempt.is_careful

    # --- both

    async def _send(
        self,
        entry: DeliveryEntry,
        chunk: AnyChunk,
        chunk_attempt: ChunkAttempt,
        leaving: Callable[[], None],
        *,
        placeholder: str = "",
    ) -> tuple[str, ...]:
        shown = self._shown(entry, chunk)
        await self._about_to_call(entry, chunk_attempt, placeholder=placeholder)
        leaving()
        return await self._called(
            entry,
            lambda: self._adapter.send(
                chunk_attempt.address, shown, send_id=entry.send_id, plain=chunk_attempt.is_plain
            ),
        )

    async def _decide(self, entry: DeliveryEntry) -> None:
        """Do as the operator chose where an earlier attempt may have arrived and nobody can say."""
        if self._rules.unknown_sends is UnknownSends.DROP:
            raise LeftUnconfirmed
        if entry.is_marked:
            return
        log.warning("%s: reply %s may be seen twice", self._adapter.name, entry.reply.id)
        await self._backoff.with_bus(lambda: self._places.count_ambiguous(self._adapter.name))
        if self._rules.unknown_sends is UnknownSends.MARK:
            entry.mark()

    async def _about_to_call(
        self, entry: DeliveryEntry, chunk_attempt: ChunkAttempt, *, placeholder: str, urgency: Urgency = Urgency.ANSWER
    ) -> None:
        """Have it written down that a call is being made, unless that was done when the entry was opened."""
        if not entry.has_begun:
            address, attempt = chunk_attempt.address, chunk_attempt.attempt
            await self._begin(entry, address, urgency, attempt=attempt, placeholder=placeholder)
        entry.has_begun = False

    async def _begin(
        self, entry: DeliveryEntry, address: ReplyAddress, urgency: Urgency, *, looks: bool = False, **changes: Any
    ) -> Beginning:
        """Wait until the budgets allow a call; what may be left out raises `NoSpareBudget` instead."""
        sent_place = self._editing.place_id(address) if self._editing is not None else ""
        destination = Destination(self._adapter.account, place_of(self._adapter, address), sent_place)
        wishes = token_wishes(self._adapter.budgets(address), urgency)
        while True:
            while not self._validity.is_sure:  # the bus is away, or somebody else delivers by now and we shall be told
                await self._backoff.wait(VALIDITY_LOOK_S)
            beginning = await entry.begin(destination, wishes, looks=looks, **changes)
            if not beginning.wait_s:
                return beginning
            if urgency is not Urgency.ANSWER:
                raise NoSpareBudget
            await self._backoff.wait(beginning.wait_s)

    def _shown(self, entry: DeliveryEntry, chunk: AnyChunk) -> AnyChunk:
        return self._adapter.marked(chunk, words_for(entry.reply.language).say(MARK)) if entry.is_marked else chunk

    async def _called(self, entry: DeliveryEntry, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call that sends something: whatever an SDK throws, the message may have gone out."""
        try:
            async with self._calls:
                return await call()
        except errors.DeliveryError as error:
            entry.is_searched &= not isinstance(error, errors.OutcomeUnknown)
            raise
        except Exception as error:  # named boundary, delivery attempt
            entry.is_searched = False
            log.exception("%s: reply %s: unforeseen error", self._adapter.name, entry.reply.id)
            raise errors.OutcomeUnknown(f"unforeseen {type(error).__name__}") from error

    async def _asked(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call that may be repeated: an answer that got lost is asked for again."""
        try:
            async with self._calls:
                return await call()
        except errors.OutcomeUnknown as error:
            raise errors.SendFailed(str(error)) from error
        except errors.DeliveryError:
            raise
        except Exception as error:  # named boundary, delivery attempt
            log.exception("%s: unforeseen error", self._adapter.name)
            raise errors.SendFailed(f"unforeseen {type(error).__name__}") from error
