"""Small stand-ins for the doors of the channels role, for unit tests of pure waiting and deciding.

Whatever touches Redis or a platform is tested on the real thing; these only make time and failure tame.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from channels.core.intake import IntakeDeps
from gateway.bus.access import Access, Questions, Suggestions
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Files
from gateway.bus.inbound import Inbound
from gateway.bus.places import Places
from gateway.contracts.access import (
    AccessView,
    Pairing,
    PairingOffer,
    PairingResult,
    PlaceRule,
    Projection,
    Rate,
    ShownAccess,
)
from gateway.contracts.budgets import Limited, LimitRule
from gateway.contracts.commands import Suggestion, SuggestionRequest
from gateway.contracts.envelope import encode
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    CleanText,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    Draft,
    Finding,
    InboundMessage,
    Preview,
    Receipt,
    Reply,
)
from gateway.contracts.ports import (
    Admission,
    Amendment,
    Beginning,
    PendingReply,
    Position,
    SendAttempt,
    SentMessages,
    TokenWish,
    Verdict,
    WantedFile,
)
from gateway.limits import BOT_TURNS_MAX
from gateway.scrub import Scrubbed, Scrubber, StreamScrubber


@dataclass
class ManualClock:
    """A clock that stands still until told otherwise."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000

    def new_id(self) -> str:
        return "0" * 26

    def code(self, length: int) -> str:
        return "K" * length


@contextmanager
def jumping_time() -> Iterator[None]:
    """Have the time of the running event loop stand still while anything is ready, and jump to its next timer then:
    no wait takes long, and a busy machine makes none late. For tests without threads, sockets and clocks of others."""
    loop: Any = asyncio.get_running_loop()
    now_s, select = loop.time(), loop._selector.select

    def time_s() -> float:
        return float(now_s)

    def jump(timeout_s: float | None = None) -> Any:
        nonlocal now_s
        if timeout_s is None:
            return select(None)
        now_s += max(timeout_s, 0.0)
        return select(0)

    with mock.patch.object(loop, "time", time_s), mock.patch.object(loop._selector, "select", jump):
        yield


class PlainScrubber(Scrubber):
    """Removes the word SECRET and nothing else."""

    def for_chat(self, chat: str) -> PlainScrubber:
        return self

    def examine(self, text: str) -> Scrubbed:
        found = [Finding("test", start, start + 6) for start in range(len(text)) if text.startswith("SECRET", start)]
        return Scrubbed(CleanText(text.replace("SECRET", "[redacted:test]")), tuple(found))

    def stream(self) -> StreamScrubber:
        return Scrubber(known_values=["SECRET"]).stream()


@dataclass
class MemoryBus(Access, Deliveries, Files, Inbound, Places, Questions, Suggestions):
    """Intake, access and delivery sides of the bus in lists. `away` makes every call fail."""

    away: bool = False
    verdict: Verdict = Verdict.ACCEPTED
    queued: list[InboundMessage] = field(default_factory=list)
    controls: list[ControlRequest] = field(default_factory=list)
    words: dict[str, Reply] = field(default_factory=dict)
    settled_ms: list[int] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    positions: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    rules: dict[SessionKey, PlaceRule] = field(default_factory=dict)
    limits: dict[Limited, LimitRule] = field(default_factory=dict)
    rates: list[Rate] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    pending_max_reached: bool = False
    notices: dict[str, Reply] = field(default_factory=dict)
    outbound: asyncio.Queue[PendingReply] = field(default_factory=asyncio.Queue)
    ledger: list[DeliveryRecord] = field(default_factory=list)
    found: dict[str, DeliveryRecord] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    paused: list[tuple[str, float]] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    taken_over: set[str] = field(default_factory=set)
    graves: dict[str, str] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    sent_ids: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    own_bots: set[str] = field(default_factory=set)
    bot_turns: dict[str, set[str]] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    namers: dict[str, str] = field(default_factory=dict)
    ambiguous: int = 0
    contents: dict[tuple[str, int], bytes] = field(default_factory=dict)
    away_for_files: int = 0
    asked: list[SuggestionRequest] = field(default_factory=list)
    suggestions: Sequence[Suggestion] = ()
    holder: str | None = None
    announced: asyncio.Queue[Activity] = field(default_factory=asyncio.Queue)
    drafted: asyncio.Queue[Draft] = field(default_factory=asyncio.Queue)
    shown: dict[str, Preview] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def _check(self) -> None:
        if self.away:
            raise BusUnavailable("the bus is away")
        self.changed.set()

    async def enqueue(
        self,
        message: InboundMessage,
        *,
        settle_ms: int = 0,
        interrupts: bool = False,
        rate: Rate = Rate(),  # noqa: B008 - frozen
        judged_by: ShownAccess | None = None,
        position: Position | None = None,
        met: Sequence[bytes] = (),
    ) -> Admission:
        self._check()
        self.rates.append(rate)
        if position is not None and self.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE):
            self.positions[position.name] = position.value
        if self.verdict is Verdict.ACCEPTED:
            if any(known.id == message.id for known in self.queued):
                return Admission(Verdict.DUPLICATE)
            self.queued.append(message)
            self.settled_ms.append(settle_ms)
            if interrupts:
                self.interrupted.append(message.id)
        return Admission(self.verdict, len(self.queued))

    async def met(self, key: SessionKey) -> Sequence[bytes]:
        self._check()
        return ()

    async def amend(self, message: InboundMessage, *, met: Sequence[bytes] = ()) -> Amendment:
        self._check()
        for place, known in enumerate(self.queued):
            if known.id == message.id:
                self.queued[place] = message
                return Amendment.CHANGED
        return Amendment.TOO_LATE

    async def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        self._check()
        kept = [known for known in self.queued if known.id != message_id]
        was_queued = len(kept) < len(self.queued)
        self.queued = kept
        return Amendment.CHANGED if was_queued else Amendment.TOO_LATE

    async def request_control(
        self,
        request: ControlRequest,
        *,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        self._check()
        if any(known.message.id == request.message.id for known in self.controls):
            return Admission(Verdict.DUPLICATE)
        self.controls.append(request)
        return Admission(Verdict.ACCEPTED)

    async def position(self, name: str) -> str | None:
        self._check()
        return self.positions.get(name)

    async def set_position(self, name: str, value: str) -> None:
        self._check()
        self.positions[name] = value

    async def view(
        self, owner: SessionKey, places: Sequence[SessionKey] = (), *, shown: ShownAccess | None = None
    ) -> AccessView:
        self._check()
        return AccessView(
            self.roles.get(str(owner)),
            {place: self.rules[place] for place in places if place in self.rules},
            self.limits,
        )

    def kept(self, owner: SessionKey, places: Sequence[SessionKey], *, lane: SessionKey) -> AccessView | None:
        return None

    async def project(self, projection: Projection, *, is_forced: bool = False) -> bool:
        self.roles = {str(grant.key): grant.role for grant in projection.grants}
        self.rules = dict(projection.places)
        self.limits = dict(projection.limits)
        return True

    async def projected(self) -> int | None:
        return 0

    async def ask_pairing(self, pairing: Pairing, *, ttl_s: int, pending_max: int) -> PairingOffer:
        self._check()
        code = "" if self.pending_max_reached else self.codes.setdefault(str(pairing.owner), pairing.code)
        return PairingOffer(code, left_ms=ttl_s * 1000)

    async def take_pairing(self, code: str, *, by: str, taker: str) -> PairingResult:
        return PairingResult()

    async def deny_pairing(self, code: str) -> SessionKey | None:
        return None

    async def pairings(self) -> Sequence[Pairing]:
        return []

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """What a test put there with a record has that in the ledger."""
        self._check()
        pending = await self.outbound.get()
        self.found[pending.reply.id] = pending.record
        return [replace(pending, record=_blank(pending.reply.id))]

    async def begin(self, channel: str, entry_id: str, attempt: SendAttempt) -> Beginning | None:
        self._check()
        destination, record, row = attempt.destination, attempt.record, self._row(attempt.reply_id)
        if entry_id in self.taken_over:
            return None
        dead, is_unsure = self.graves.get(destination.place, ""), destination.account in self.doubted
        preview = self.shown.get(attempt.reply_id)
        preview_row = b"" if preview is None else encode(preview)
        is_known = row != _blank(row.reply_id) or preview is not None or bool(dead) or is_unsure
        is_another = bool(attempt.adopts) and attempt.adopts != preview_row
        if record is None or is_another or (attempt.is_first and is_known):
            return Beginning(row, False, 0.0, dead, is_unsure, preview, preview_row)
        wait_s = await self.take_send_tokens(destination.account, attempt.wishes)
        if wait_s:
            return Beginning(row, wait_s=wait_s)
        self.ledger.append(record)
        if attempt.adopts:
            self.shown.pop(attempt.reply_id)
            self._note_sent(SentMessages(destination.sent_place, record.shown) if destination.sent_place else None)
        return Beginning(record, has_begun=True)

    async def record(
        self, channel: str, entry_id: str, record: DeliveryRecord, *, sent: SentMessages | None = None
    ) -> bool:
        self._check()
        if entry_id not in self.taken_over:
            self.ledger.append(record)
            self._note_sent(sent)
        return entry_id not in self.taken_over

    async def delivered(self, key: SessionKey, reply_id: str) -> DeliveryRecord:
        self._check()
        return self._row(reply_id)

    def _row(self, reply_id: str) -> DeliveryRecord:
        known = [record for record in self.ledger if record.reply_id == reply_id]
        return known[-1] if known else self.found.get(reply_id, _blank(reply_id))

    def _note_sent(self, sent: SentMessages | None) -> None:
        if sent is not None:
            ids = self.sent_ids.setdefault(sent.place, [])
            ids.extend(message_id for message_id in sent.ids if message_id not in ids)

    async def drafts(self, channel: str) -> AsyncIterator[Draft]:
        self._check()
        while True:
            yield await self.drafted.get()

    async def note_preview(self, channel: str, preview: Preview, *, sent: SentMessages | None = None) -> bool:
        self._check()
        if any(record.reply_id == preview.reply_id for record in self.ledger):
            return False
        self._note_sent(sent)
        self.shown[preview.reply_id] = preview
        return True

    async def has_taken_all(self, channel: str, key: SessionKey) -> bool:
        self._check()
        return self.outbound.empty()

    async def preview(self, channel: str, key: SessionKey, reply_id: str) -> Preview | None:
        self._check()
        return self.shown.get(reply_id)

    async def previews(self, channel: str) -> Sequence[Preview]:
        self._check()
        return list(self.shown.values())

    async def drop_preview(self, channel: str, preview: Preview) -> None:
        self._check()
        self.shown.pop(preview.reply_id, None)

    async def told(self, press: InboundMessage, *, wait_s: float) -> Reply | None:
        self._check()
        return self.words.get(press.id)

    async def ask(self, wanted: SuggestionRequest, *, wait_s: float) -> Sequence[Suggestion]:
        self._check()
        self.asked.append(wanted)
        return self.suggestions

    def put_back(self, channel: str) -> None:
        return

    async def finish(self, channel: str, entry_id: str, receipt: Receipt, *, sent: SentMessages | None = None) -> None:
        self._check()
        self._note_sent(sent)
        self.receipts[entry_id] = receipt

    async def activities(self, channel: str) -> AsyncIterator[Activity]:
        self._check()
        while True:
            yield await self.announced.get()

    async def publish(self, replies: Sequence[Reply]) -> None:
        self._check()
        for reply in replies:
            self.notices.setdefault(reply.id, reply)

    async def fetch_file(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        self._check()
        if self.away_for_files:
            self.away_for_files -= 1
            return None
        return self.contents[wanted.reply_id, wanted.position]

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        self._check()
        if self.holder in (None, holder):
            self.holder = holder
        return self.holder == holder

    async def release(self, name: str, holder: str) -> None:
        if self.holder == holder:
            self.holder = None

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        self._check()
        return self.waits_s.pop(0) if self.waits_s else 0.0

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        self._check()
        self.paused.append((f"{account}:{bucket}", for_s))

    async def mark_dead(self, account: str, place: str, *, reason: str) -> int:
        self._check()
        self.graves[place] = reason
        return len(self.graves)

    async def mark_alive(self, place: str) -> None:
        self._check()
        self.graves.pop(place, None)

    async def mark_unsure(self, account: str) -> None:
        self._check()
        self.doubted.add(account)

    async def sent_lately(self, place: str) -> frozenset[str]:
        self._check()
        return frozenset(self.sent_ids.get(place, ()))

    async def note_move(self, channel: str, old: str, new: str) -> None:
        self._check()
        self.moves[old] = new

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        self._check()
        return [self.moves.get(chat, chat) for chat in chats]

    async def moved(self, channel: str) -> Mapping[str, str]:
        self._check()
        return {new: old for old, new in self.moves.items()}

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        self._check()
        first = {new: old for old, new in self.moves.items()}
        return [first.get(chat, chat) for chat in chats]

    async def keep_link(self, name: str, url: str, *, ttl_s: float) -> None:
        self._check()
        self.links[name] = url

    async def link(self, name: str) -> str:
        self._check()
        return self.links.get(name, "")

    async def introduce(self, platform: str, bots: Sequence[str]) -> None:
        self._check()
        self.own_bots |= {f"{platform}:{bot}" for bot in bots}

    async def hear_bot(self, room: str, message_id: str, *, speaker: str) -> bool:
        self._check()
        spoken = self.bot_turns.setdefault(room, set())
        if f"{room.partition(':')[0]}:{speaker}" in self.own_bots:
            return False
        if len(spoken | {message_id}) <= BOT_TURNS_MAX:
            spoken.add(message_id)
        return message_id in spoken

    async def person_spoke(self, room: str) -> None:
        self._check()
        self.bot_turns.pop(room, None)

    async def may_name(self, place: str, *, conversation: str, is_first: bool) -> bool:
        self._check()
        if is_first:
            self.namers.setdefault(place, conversation)
        return self.namers.get(place) == conversation

    async def count_ambiguous(self, channel: str) -> None:
        self._check()
        self.ambiguous += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when `holds` does, looking again after each call of the bus."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()


def _blank(reply_id: str) -> DeliveryRecord:
    return DeliveryRecord(reply_id, DeliveryState.PENDING)


def door_rooms(bus: MemoryBus, scrubber: Scrubber | None = None, clock: ManualClock | None = None) -> IntakeDeps:
    """What a door stands on that has only this bus behind it."""
    return IntakeDeps(
        intake=bus,
        access=bus,
        deliveries=bus,
        presses=bus,
        suggestions=bus,
        scrubber=scrubber or PlainScrubber(),
        clock=clock or ManualClock(),
    )
