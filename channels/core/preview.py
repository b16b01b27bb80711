"""One answer shown while it grows, until its messages become the reply's own.

A message that is full is frozen at the border that the renderer chose, and the text goes on in the next one. Each call
brings one message up to date, the earlier ones first, so a border that moved is put right before anything is added."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from channels.core.adapter import (
    AnyChunk,
    ChannelAdapter,
    StreamCadence,
    SupportsChoices,
    SupportsLookup,
    SupportsPlaceholders,
    SupportsStreaming,
)
from channels.core.attempt import DeliveryEntry, PreviewRemover
from channels.core.content import rendered
from channels.core.lease import LeaseValidity
from channels.core.notices import STOP
from channels.core.places import AddressResolver
from channels.core.rate_limit import Abandoned, BackoffTimer, DeliveryHealth, LaneLock, LaneLocks, Pacer, Urgency
from channels.markdown.unfinished import as_if_closed
from gateway.bounded_dict import BoundedDict
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts import errors
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Activity, Choice, CleanText, Draft, Preview, Reply, literal_text, stop_command
from gateway.contracts.ports import Beginning, Clock, SentMessages
from gateway.i18n import words_for
from gateway.scrub import Scrubber
from gateway.tasks import BackgroundTasks, Backoff, first_to_end, jittered

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin one more message."""

    chunk: AnyChunk


@dataclass(frozen=True, slots=True)
class Change:
    """Change the message at this position: its text is another one by now."""

    at: int
    chunk: AnyChunk


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take back the last message: the text is shorter than it was, because it was begun anew."""


Step: TypeAlias = Begin | Change | TakeBack


def next_step(shown: Sequence[AnyChunk | None], chunks: Sequence[AnyChunk]) -> Step | None:
    """Return the step that brings messages that show `shown` (None: unknown) closer to `chunks`. None: they are the
    same, or there is nothing to show."""
    for at, (old, new) in enumerate(zip(shown, chunks, strict=False)):
        if old != new:
            return Change(at, new)
    if not chunks or len(shown) == len(chunks):
        return None
    return Begin(chunks[len(shown)]) if len(shown) < len(chunks) else TakeBack()


def has_grown(before: str, now: str, *, chars_min: int) -> bool:
    """Tell whether a change is worth a call: the text is longer by `chars_min`, or it is another text."""
    if not before:
        return bool(now)
    return len(now) - len(before) >= chars_min or not now.startswith(before)


# The messages that showed the draft of a reply become the reply's own, when its delivery begins.
#
# The preview's row (`Preview`) names them from before they were begun. The beginning of the reply's first attempt takes
# them over and deletes the row in one step, if it is still the row that was found; nobody can begin another message for
# the same reply after that. One may have been on its way when a process died: it is found first, or begun once more
# where that cannot show it twice.

SETTLE_DELAYS_S: Final = (1.0, 2.0, 4.0, 8.0)  # then the answer goes out all the same


class PreviewAdopter:
    """Adopts previews for the replies of one channel. Waits for the bus; raises `Abandoned`, `TakenOver`,
    `CredentialsRejected`."""

    def __init__(self, adapter: ChannelAdapter, places: Places, backoff: BackoffTimer) -> None:
        self._adapter = adapter
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None
        self._asking = adapter if isinstance(adapter, SupportsLookup) else None
        self._editing = adapter if isinstance(adapter, SupportsPlaceholders) else None
        self._places = places
        self._backoff = backoff

    async def adopt(self, entry: DeliveryEntry, address: ReplyAddress, opened: Beginning) -> None:
        """Make what shows the draft of the reply its own, if that was found when the entry was opened and nothing of
        the reply has been sent."""
        preview = opened.preview
        if self._streaming is None or preview is None or entry.record.updated_at_ms:
            return
        lost = await self.settled(preview, address) if preview.opening else None
        entry.adopt((*preview.messages, *((lost,) if lost else ())), preview, opened.preview_row)

    async def settled(self, preview: Preview, address: ReplyAddress) -> str | None:
        """Find the id of the message that was being begun; None if it is not there, or if nobody can say, which is
        counted."""
        found = await self._found(preview, address)
        if found is None:
            log.warning("%s: the draft of %s may be seen beside it", self._adapter.name, preview.reply_id)
            await self._backoff.with_bus(lambda: self._places.count_ambiguous(self._adapter.name))
        return found

    async def _found(self, preview: Preview, address: ReplyAddress) -> str | None:
        streaming = self._streaming
        chunks = await rendered(self._adapter, preview.opening, as_if_closed)
        if streaming is None or len(chunks) <= len(preview.messages):
            return None
        chunk = chunks[len(preview.messages)]
        for delay_s in SETTLE_DELAYS_S:
            try:
                return await self._find(streaming, preview, address, chunk)
            except errors.RateLimited as error:
                await self._backoff.wait(error.retry_after_s)
            except (errors.SendFailed, errors.OutcomeUnknown):
                await self._backoff.back_off(jittered(delay_s))
            except errors.AddressMoved as error:
                address = error.address
            except errors.CredentialsRejected:
                raise
            except errors.DeliveryError as error:
                log.info("%s: what showed %s is not to be had: %s", self._adapter.name, preview.reply_id, error)
                return None
        return None

    async def _find(
        self, streaming: SupportsStreaming, preview: Preview, address: ReplyAddress, chunk: AnyChunk
    ) -> str | None:
        send_id, since_ms = f"{preview.reply_id}:{len(preview.messages)}", preview.begun_at_ms
        if self._asking is not None:
            try:
                ids = await self._asking.find_sent(address, chunk, send_id=send_id, since_ms=since_ms)
            except errors.Untraceable:
                return None
            return ids[-1] if ids else await streaming.begin_stream(address, chunk, send_id=send_id)
        if self._editing is None:
            return None
        place = self._editing.place_id(address)
        noted = await self._backoff.with_bus(lambda: self._places.sent_lately(place))
        return await self._editing.find_lost(address, chunk, after=preview.messages, known=noted | {*preview.messages})


# One growing answer on its way to people: one call at a time, the latest text, never in the way of the answer itself.
#
# Where drafts fade by themselves nothing needs to be remembered. Elsewhere each message is written down in the ledger
# before it is begun, and again with its id: the process that delivers the reply takes them over (`PreviewAdopter`).

REFUSALS_MAX: Final = 3  # in a row; then this answer is shown when it is whole
_NOTHING: Final = literal_text("")


@runtime_checkable
class StreamingAdapter(SupportsStreaming, SupportsChoices, ChannelAdapter, Protocol):
    """A platform on which answers are shown while they grow."""


@dataclass(frozen=True, slots=True)
class StreamDeps:
    """The parts that all streams of a channel share."""

    adapter: StreamingAdapter
    bus: Deliveries
    places: Places
    clock: Clock
    addresses: AddressResolver
    validity: LeaseValidity
    lane_locks: LaneLocks
    pacer: Pacer
    backoff: BackoffTimer
    health: DeliveryHealth
    remover: PreviewRemover


class AnswerStream:
    """Shows one answer until it is told to end, or may not go on."""

    def __init__(self, parts: StreamDeps, draft: Draft) -> None:
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
        """Return the id of the turn whose answer this is."""
        return self._draft.turn_id

    def renew(self, draft: Draft) -> None:
        """Replace all that has not been shown yet by the latest text."""
        self._draft = draft
        self._changed.set()

    def end(self) -> None:
        """End the stream: no call begins any more; one that is under way comes to its end."""
        self._over.set()
        self._changed.set()

    async def run(self) -> None:
        """Show the answer as it grows, until it ends. Raises `BusUnavailable`, `Abandoned`."""
        (lane,) = await self._parts.addresses.lanes([self._draft.address])
        lane_lock = self._parts.lane_locks.of(lane)
        cadence = self._adapter.cadence(self._draft.address)
        if cadence is not None:
            await self._rest(cadence.first_after_s)
        while cadence is not None and not self._over.is_set():
            has_news = self._is_behind or has_grown(self._told, self._draft.text, chars_min=cadence.chars_min)
            if not (has_news or self._fades_in_s(cadence) <= 0):
                await self._until_changed(cadence)
                continue
            await self._rest(lane_lock.free_at_s - _now_s())
            async with lane_lock.one_at_a_time:
                if not self._over.is_set():
                    await self._go_on(lane_lock, cadence)
            cadence = self._adapter.cadence(self._draft.address)

    def _fades_in_s(self, cadence: StreamCadence) -> float:
        """Return how long the text shown stays: for ever, if it was not shown or does not fade."""
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

    async def _until_changed(self, cadence: StreamCadence) -> None:
        """Return when there is another text, when it ends, or when what is shown would fade."""
        self._changed.clear()
        left_s = self._fades_in_s(cadence)
        try:
            async with asyncio.timeout(None if left_s == float("inf") else left_s):
                await self._changed.wait()
        except TimeoutError:
            return

    # --- one call

    async def _go_on(self, lane_lock: LaneLock, cadence: StreamCadence) -> None:
        """Show the latest text, unless answers need the budgets; whatever comes of it, the next call waits its turn."""
        address = await self._parts.addresses.newest(self._draft.address)
        try:
            if self._parts.validity.is_sure and await self._may_begin(lane_lock) and await self._may_spend(address):
                text = self._draft.text
                chunks = await rendered(self._adapter, text, as_if_closed)
                if chunks and self._adapter.is_draft(address):
                    await self._show_draft(address, chunks[-1], at=len(chunks) - 1)
                    self._is_behind = False
                elif chunks:
                    if len(command := stop_command(self._draft.key)) <= cadence.stop_chars_max:
                        stop = Choice(words_for(self._draft.language).say(STOP), command)
                        chunks = (*chunks[:-1], self._adapter.offering(chunks[-1], [stop]))
                    await self._show_messages(address, chunks, text)
                self._told = text
                self._shown_at_s = _now_s()
                self._refusals = 0
                lane_lock.pace = lane_lock.pace.taken()
        except errors.DeliveryError as error:
            log.info("%s: the draft of %s: %s", self._adapter.name, self._draft.reply_id, error)
            match error:
                case errors.RateLimited():
                    lane_lock.pace = lane_lock.pace.refused()
                    lane_lock.free_at_s = _now_s() + error.retry_after_s
                    await self._parts.health.learn(error, address)
                case errors.AddressMoved():
                    await self._parts.health.learn(error, address)
                case errors.SendFailed() | errors.OutcomeUnknown():
                    pass
                case errors.CredentialsRejected():
                    self.end()
                case _:
                    self._refusals += 1
            if self._refusals >= REFUSALS_MAX:
                self.end()
        except Exception:  # named boundary, delivery attempt: a draft is never worth a failure
            log.exception("%s: the draft of %s cannot be shown", self._adapter.name, self._draft.reply_id)
            self.end()
        lane_lock.free_at_s = max(lane_lock.free_at_s, _now_s() + lane_lock.pace.interval_s(cadence))

    async def _may_begin(self, lane_lock: LaneLock) -> bool:
        """Tell whether what is shown cannot come before an earlier answer of the lane, which may still wait: here, with
        another process that delivered until now, or unread."""
        if self._shown:
            return True
        bus, name, key = self._parts.bus, self._adapter.name, self._draft.key
        has_all = await self._parts.backoff.with_bus(lambda: bus.has_taken_all(name, key))
        return has_all and not self._parts.lane_locks.is_placing and not lane_lock.replies

    async def _may_spend(self, address: ReplyAddress) -> bool:
        return await self._parts.pacer.may_spend(self._adapter.budgets(address), Urgency.EDIT)

    async def _show_draft(self, address: ReplyAddress, chunk: AnyChunk, *, at: int) -> None:
        """Show the draft; of a text longer than one message, the end is shown, where it grows."""
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
                is_there = await self._adapter.go_on(
                    address, chunk, message_id=row.messages[at], send_id=f"{row.reply_id}:{at}"
                )
                if is_there:
                    self._shown[at] = chunk
                else:  # somebody deleted it, and does not want to see it grow
                    self.end()
            case TakeBack():
                await self._parts.remover.take_back(address, row.messages[-1])
                await self._note(replace(row, messages=row.messages[:-1]))
                self._shown.pop()
        self._is_behind = next_step(self._shown, chunks) is not None

    async def _known(self) -> Preview:
        """Return what another process, or an earlier stream, has begun for this reply."""
        draft = self._draft
        row = await self._parts.bus.preview(self._adapter.name, draft.key, draft.reply_id)
        row = row or Preview(draft.address, draft.key, draft.turn_id, draft.reply_id)
        self._shown = [None] * len(row.messages)
        return row

    async def _begin(self, address: ReplyAddress, row: Preview, chunk: AnyChunk, text: CleanText) -> None:
        """Begin a message, but not before the ledger knows of it; a refusal takes the ledger's entry back, an unknown
        outcome leaves it."""
        now_ms = self._parts.clock.now_ms()
        if not await self._note(replace(row, address=address, opening=text, begun_at_ms=now_ms)):
            return
        try:
            message_id = await self._adapter.begin_stream(address, chunk, send_id=f"{row.reply_id}:{len(row.messages)}")
        except errors.OutcomeUnknown as error:
            self.end()
            await self._parts.health.learn(error, address)
            raise
        except errors.DeliveryError:
            await self._note(row)
            raise
        begun = replace(row, address=address, messages=(*row.messages, message_id), begun_at_ms=now_ms)
        sent = None
        if isinstance(self._adapter, SupportsPlaceholders):
            sent = SentMessages(self._adapter.place_id(address), (message_id,))
        if not await self._note(begun, sent):
            await self._parts.remover.take_back(address, message_id)  # we slept, and another process has answered
            return
        self._shown.append(chunk)

    async def _note(self, row: Preview, sent: SentMessages | None = None) -> bool:
        """Write the row, or, where nothing is shown any more, forget it. False: the answer is being delivered."""
        self._row = row
        parts, channel = self._parts, self._adapter.name
        if not row.messages and not row.opening:
            await parts.backoff.with_bus(lambda: parts.bus.drop_preview(channel, row))
            return True
        is_noted = parts.validity.is_sure and await parts.backoff.with_bus(
            lambda: parts.bus.note_preview(channel, row, sent=sent)
        )
        if not is_noted:
            self.end()
        return is_noted


def _now_s() -> float:
    return asyncio.get_running_loop().time()


# The growing answers of one channel, and the removal of previews that no answer follows.
#
# A turn that is silent for long, and whose answer does not come, has died; if it is taken up again, its answer is
# shown anew. Once an answer is being delivered, its messages belong to the answer; a row left after that may name
# further messages only if a process began them after it had been suspended.


LOOK_EVERY_S: Final = 10.0  # for what was begun and never ended
SILENT_FOR_S: Final = 30.0  # a turn that lives says so every three seconds, and is taken over within ten
TURNS_KEPT: Final = 2_000  # more than run at once
_ENDED: Final = float("-inf")


class PreviewCleanup:
    """The removal of one channel's previews; only the process that delivers does it."""

    def __init__(
        self, parts: StreamDeps, is_coming: Callable[[str], bool], *, silent_for_s: float = SILENT_FOR_S
    ) -> None:
        """Ask `is_coming` about replies that are there and wait to be delivered."""
        self._parts = parts
        self._name = parts.adapter.name
        self._adopter = PreviewAdopter(parts.adapter, parts.places, parts.backoff)
        self._is_coming = is_coming
        self._silent_for_s = silent_for_s
        self._heard_s: BoundedDict[str, float] = BoundedDict(TURNS_KEPT)
        """The last time each turn was heard of, -inf if that was its end."""

    def lives(self, turn_id: str) -> None:
        """Note that the turn was heard of. Late news does not bring back a turn that has ended."""
        if not self.is_ended(turn_id):
            self._heard_s[turn_id] = _now_s()

    def ended(self, turn_id: str) -> None:
        """Note that no answer of the turn will come."""
        self._heard_s[turn_id] = _ENDED

    def is_ended(self, turn_id: str) -> bool:
        """Tell whether the turn was noted as ended."""
        return self._heard_s.get(turn_id) == _ENDED

    async def run(self) -> None:
        """Look from time to time until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Take away what is left of turns that are silent."""
        for row in await self._rows():
            if row.turn_id not in self._heard_s:
                self.lives(row.turn_id)
            await self._clear(row, is_ended=_now_s() - self._heard_s[row.turn_id] > self._silent_for_s)

    async def take_away(self, turn_id: str) -> None:
        """Take away the drafts of a turn that has ended. A draft that cannot be taken away now is tried at the next
        look."""
        for row in await self._rows():
            if row.turn_id == turn_id:
                await self._clear(row, is_ended=True)

    async def _rows(self) -> list[Preview]:
        if not self._parts.validity.is_sure:
            return []
        try:
            return list(await self._parts.bus.previews(self._name))
        except errors.BusUnavailable:
            log.debug("%s: no look for drafts while the bus is away", self._name)
            return []

    async def _clear(self, row: Preview, *, is_ended: bool) -> None:
        try:
            (lane,) = await self._parts.addresses.lanes([row.address])
            async with self._parts.lane_locks.of(lane).one_at_a_time:
                known = await self._parts.bus.delivered(row.key, row.reply_id)
                is_answered = bool(known.updated_at_ms)
                if is_answered or (is_ended and not self._is_coming(row.reply_id)):
                    await self._take_back(row, but={*known.platform_ids, *known.shown}, is_answered=is_answered)
        except (errors.BusUnavailable, Abandoned) as error:
            log.debug("%s: a draft is not taken away yet: %s", self._name, error)

    async def _take_back(self, row: Preview, *, but: set[str], is_answered: bool) -> None:
        bus, remover = self._parts.bus, self._parts.remover
        now = await bus.preview(self._name, row.key, row.reply_id)
        if now is None or not self._parts.validity.is_sure:
            return
        try:
            address = await self._parts.addresses.newest(now.address)
            lost = await self._adopter.settled(now, address) if now.opening and not is_answered else None
            for message_id in (*now.messages, *((lost,) if lost else ())):
                if message_id not in but:
                    await remover.take_back(address, message_id)
        except (errors.RateLimited, errors.SendFailed, errors.OutcomeUnknown, errors.CredentialsRejected) as error:
            log.info("%s: the draft of %s is not taken away yet: %s", self._name, now.reply_id, error)
            return
        except errors.DeliveryError as error:
            log.info("%s: the draft of %s stays: %s", self._name, now.reply_id, error)
        except Exception:  # named boundary, delivery attempt
            log.exception("%s: the draft of %s stays", self._name, now.reply_id)
        await bus.drop_preview(self._name, now)


# Answers while they grow: follows the drafts of one channel, and removes those that no answer follows.
#
# Drafts may be lost, and so may all of this, with one exception: each message begun on a platform is in the ledger
# (`Preview`), and in the end it belongs to the reply, or is removed (`PreviewCleanup`).

STREAMS_MAX: Final = 500  # answers that grow at once; each costs a call every second or so
OVER_KEPT: Final = 2_000  # drafts are late and lossy; one of an answered turn must not begin anything


class AnswerStreams:
    """The streams of one channel. Where nothing is to be shown, the previews of earlier processes are removed."""

    def __init__(
        self,
        adapter: StreamingAdapter,
        bus: Deliveries,
        places: Places,
        scrubber: Scrubber,
        clock: Clock,
        addresses: AddressResolver,
        validity: LeaseValidity,
        lane_locks: LaneLocks,
        *,
        shows: bool = True,
    ) -> None:
        backoff = BackoffTimer()
        pacer = Pacer(bus, adapter)
        self.parts = parts = StreamDeps(
            adapter,
            bus,
            places,
            clock,
            addresses,
            validity,
            lane_locks,
            pacer,
            backoff,
            DeliveryHealth(adapter, places, pacer, backoff, scrubber),
            PreviewRemover(adapter),
        )
        self._backoff = backoff
        self._name = adapter.name
        self._shows = shows
        self._cleanup = PreviewCleanup(parts, self._is_coming)
        self._streams: dict[str, AnswerStream] = {}
        self._tasks = BackgroundTasks()
        self._over: BoundedDict[str, bool] = BoundedDict(OVER_KEPT)
        """Replies that need no drafts any more, and whether they are there."""

    async def run(self) -> None:
        """Follow the drafts until cancelled."""
        try:
            await first_to_end(self._follow(), self._cleanup.run())
        finally:
            await self._tasks.cancel()

    def heard(self, activity: Activity) -> None:
        """Note that a turn runs; or that it ended, and that there is no answer to come."""
        if activity.ended:
            self.ended(activity.turn_id)
        else:
            self._cleanup.lives(activity.turn_id)

    def ended(self, turn_id: str) -> None:
        """Note that there is no answer to come, and begin no draft of it any more."""
        for stream in self._streams.values():
            if stream.turn_id == turn_id:
                stream.end()
        self._cleanup.ended(turn_id)
        self._start(self._cleanup.take_away(turn_id))

    def coming(self, reply: Reply) -> None:
        """Note that the answer is here: its draft grows no more."""
        self._over[reply.id] = True
        if stream := self._streams.get(reply.id):
            stream.end()

    async def drain(self, *, grace_s: float) -> None:
        """Begin nothing any more, let what is under way come to its end."""
        self._shows = False
        self._backoff.end()
        for stream in self._streams.values():
            stream.end()
        await self._tasks.settle(timeout_s=grace_s)

    # --- what grows

    async def _follow(self) -> None:
        backoff = Backoff(0.5, 10.0)
        if not self._shows:
            await asyncio.Event().wait()
        while True:
            try:
                async for draft in self.parts.bus.drafts(self._name):
                    backoff.reset()
                    self._hear(draft)
            except errors.BusUnavailable:
                log.debug("%s: no drafts while the bus is away", self._name)
            await asyncio.sleep(backoff.next_s())

    def _hear(self, draft: Draft) -> None:
        self._cleanup.lives(draft.turn_id)
        if stream := self._streams.get(draft.reply_id):
            stream.renew(draft)
        elif self._may_begin(draft):
            stream = self._streams[draft.reply_id] = AnswerStream(self.parts, draft)
            self._start(self._keep_up(stream, draft.reply_id))

    def _may_begin(self, draft: Draft) -> bool:
        is_needed = draft.reply_id not in self._over and not self._cleanup.is_ended(draft.turn_id)
        is_wanted = self._shows and is_needed and len(self._streams) < STREAMS_MAX
        return is_wanted and self.parts.validity.is_sure and self.parts.adapter.cadence(draft.address) is not None

    async def _keep_up(self, stream: AnswerStream, reply_id: str) -> None:
        try:
            await stream.run()
            self._over[reply_id] = self._is_coming(reply_id)
        except (errors.BusUnavailable, Abandoned) as error:  # the next draft goes on where this ended
            log.debug("%s: a draft is not shown: %s", self._name, error)
        except Exception:  # named boundary, supervisor child: a draft is never worth a failure
            log.exception("%s: a draft is not shown", self._name)
        finally:
            del self._streams[reply_id]

    def _is_coming(self, reply_id: str) -> bool:
        return self._over.get(reply_id, False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work, name=f"{self._name}-draft")
