"""Live messages in order, and the platform's history first after a gap.

A room is a place with all its threads: the part before the first slash of a place's name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from channels.core.adapter import IntakeOutcome, MessageHandler, QueueFull
from channels.core.message import Incoming, Retraction
from gateway.bounded_dict import BoundedDict
from gateway.bus.inbound import Inbound
from gateway.contracts.errors import BusUnavailable
from gateway.tasks import Backoff, first_to_end, wait_at_most

log = logging.getLogger(__name__)


def room_of(place: str) -> str:
    """Return the room that a place lies in."""
    return place.partition("/")[0]


class BackfillQueue:
    """The rooms to read back, in that order."""

    def __init__(self, *, first_s: float, cap_s: float) -> None:
        """Let a room wait `first_s` after a failure, then twice that, … up to `cap_s`."""
        self._first_s = first_s
        self._cap_s = cap_s
        self._due_s: OrderedDict[str, float] = OrderedDict()
        self._pauses: dict[str, Backoff] = {}

    def __contains__(self, room: str) -> bool:
        return room in self._due_s

    def __len__(self) -> int:
        return len(self._due_s)

    def add(self, rooms: Iterable[str]) -> None:
        """Add these rooms after all others."""
        for room in rooms:
            self._due_s[room] = 0.0

    def put_first(self, room: str) -> None:
        """Read this room next because somebody in it is talking and waits, unless it has just failed."""
        self._due_s.move_to_end(room, last=False)

    def postpone(self, room: str, now_s: float) -> int:
        """Put off a room that could not be read to its end. Returns how often that has happened in a row."""
        pause = self._pauses.setdefault(room, Backoff(self._first_s, self._cap_s))
        self._due_s[room] = now_s + pause.next_s()
        self._due_s.move_to_end(room)
        return pause.tries

    def done(self, room: str) -> None:
        """Remove a room that has nothing left to read."""
        self._due_s.pop(room, None)
        self._pauses.pop(room, None)

    def next(self, now_s: float) -> str | None:
        """Return the room to read now, None while all of them wait."""
        return next((room for room, due_s in self._due_s.items() if due_s <= now_s), None)

    def wait_s(self, now_s: float) -> float | None:
        """Return how long until a room may be read, None when there is none."""
        return max(0.0, min(self._due_s.values()) - now_s) if self._due_s else None


# How far a channel has listened: the last message of each place that is on the bus, kept on the bus itself.
#
# Platforms that keep no queue for us (Discord, and Slack after a few minutes) are read back from these cursors after a
# restart or a lost connection. Cursors may lag: the bus knows by its id a message that is read twice. They may not
# lead: a cursor is always before each message that was heard and is not on the bus. And a place may not be forgotten: a
# bot cannot list its direct chats on Discord, so nothing else knows of them. All cursors of an account are one JSON
# value, written at once for each new place and otherwise every few seconds.

PLACES_MAX: Final = 2_000  # the most recent ones; a place that fell out is read from the account's cursor
_NEWEST: Final = "newest"
_PLACES: Final = "places"


@dataclass(frozen=True, slots=True)
class MessageOrder:
    """The order of a platform's message ids: `key` compares, `before` names the moment just before one."""

    key: Callable[[str], Any]
    before: Callable[[str], str]


class ReadCursors:
    """The read cursors of one account: how far each place has been read."""

    def __init__(self, positions: Inbound, name: str, order: MessageOrder) -> None:
        self._positions = positions
        self._name = name
        self._order = order
        self._places: BoundedDict[str, str] = BoundedDict(PLACES_MAX)
        self._newest = ""
        self._ahead = ""
        self._is_dirty = False
        self._saving = asyncio.Lock()
        self.has_unrecorded_place = False
        """A place is known here that the bus does not know yet: save before anything of it is taken."""

    async def load(self) -> bool:
        """Read them; False when this account has never listened before. Raises `BusUnavailable`."""
        text = await self._positions.position(self._name)
        if not text:
            return False
        kept = json.loads(text)
        self._newest = self._ahead = str(kept[_NEWEST])
        self._places.clear()
        self._places.update((str(place), str(last)) for place, last in kept[_PLACES])
        return True

    def is_later(self, message_id: str, *, than: str) -> bool:
        """Tell whether a message was said after the other one; a message without an id never was."""
        return bool(message_id) and self._order.key(message_id) > self._order.key(than)

    async def save(self) -> None:
        """Write them if they moved. Raises `BusUnavailable`."""
        async with self._saving:  # an older state must not arrive after a newer one
            if not self._is_dirty:
                return
            had_unrecorded, self.has_unrecorded_place, self._is_dirty = self.has_unrecorded_place, False, False
            text = json.dumps({_NEWEST: self._newest, _PLACES: list(self._places.items())}, separators=(",", ":"))
            try:
                await self._positions.set_position(self._name, text)
            except BaseException:
                self._is_dirty = True
                self.has_unrecorded_place |= had_unrecorded
                raise

    @property
    def newest(self) -> str:
        """Return the newest message seen anywhere: a place without a cursor of its own begins there."""
        return self._newest

    @property
    def places(self) -> tuple[str, ...]:
        """List the places with a cursor, the most recent last."""
        return tuple(self._places)

    def of(self, place: str) -> str:
        """Return the last message of a place that is on the bus, or the account's newest."""
        return self._places.get(place, self._newest)

    def meet(self, place: str, message_id: str) -> bool:
        """Note that a message of this place was heard; True when the place is new. It then begins at the account's
        cursor, in any case before the message."""
        if place in self._places:
            return False
        just_before = self._order.before(message_id)
        is_earlier = bool(self._newest) and self._order.key(just_before) < self._order.key(self._newest)
        self._put(place, just_before if is_earlier else self._newest)
        self.has_unrecorded_place = True
        return True

    def reach(self, place: str, message_id: str) -> None:
        """Move the cursor to a message that is on the bus or is not for us."""
        known = self._places.get(place)
        if known and self._order.key(message_id) <= self._order.key(known):
            return
        self._put(place, message_id)
        if not self._ahead or self._order.key(message_id) > self._order.key(self._ahead):
            self._ahead = message_id

    def move_back(self, place: str, message_id: str) -> None:
        """Move the cursor back: the message was heard but is not on the bus, so the place is read again from
        before it."""
        known = self._places.get(place)
        if known is None:
            self.meet(place, message_id)
        elif known and self._order.key(known) >= self._order.key(message_id):
            self._put(place, self._order.before(message_id))

    def settle(self) -> None:
        """Let the account's cursor follow the newest message reached, since no place lags any more."""
        self._newest = self._ahead

    async def begin(self, message_id: str) -> None:
        """Record at the very first start that nothing before this message concerns us. Raises `BusUnavailable`."""
        self._newest = self._ahead = message_id
        self._is_dirty = True
        await self.save()

    def _put(self, place: str, message_id: str) -> None:
        self._places[place] = message_id
        self._is_dirty = True


# Live messages in order, and history first after any gap.
#
# For platforms that push: messages that were not taken (the bus was away, or full) or not heard (the connection was
# lost) are read back from the platform's own history, from the cursors on. A room that lags is read back before
# anything new of it is taken; the other rooms go on meanwhile, and so do the commands that never wait. Should too many
# messages wait, they are dropped, because history has them too.

WAITING_MAX: Final = 1_000
SAVE_EVERY_S: Final = 2.0
LAST_WORD_S: Final = 0.5  # somebody else may begin soon after: a bus that does not answer must not hold us up
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 30.0
READ_TRIES_MAX: Final = 16  # some four minutes; a room that cannot be read for longer must not stay shut
SHARED_FOR_S: Final = 60.0  # by then a platform has noticed that a connection leads nowhere
SHARED_LOOK_EVERY_S: Final = 5.0
SHARED_ROOMS_MAX: Final = 4  # read at each look: Slack allows some 50 calls a minute


RawT = TypeVar("RawT")


class NotTaken(Exception):
    """The message is not on the bus: do not acknowledge it."""


class HistoryUnavailable(Exception):
    """The platform's history cannot be read now; it is asked again later."""


@dataclass(frozen=True, slots=True)
class RawMessage(Generic[RawT]):
    """One message of a place in the platform's form. One with an empty `message_id` is in no history."""

    place: str
    message_id: str
    raw: RawT

    @property
    def room(self) -> str:
        return room_of(self.place)


class MessageSource(Protocol[RawT]):
    """The platform's side of listening."""

    async def rooms(self) -> Sequence[str]:
        """List the rooms where something may have been said since the cursors. May raise `HistoryUnavailable`."""

    def missed(self, room: str) -> AsyncIterator[RawMessage[RawT]]:
        """Yield the messages said in a room since its cursors, oldest first. May raise `HistoryUnavailable`."""

    async def understand(self, message: RawMessage[RawT]) -> Incoming | Retraction | None:
        """Return the message if it is ours to answer, or the retraction if one was deleted. Raises `BusUnavailable`;
        anything else marks the message as poisonous."""

    async def taken(self, incoming: Incoming) -> None:
        """Note that the bus has the message and that a turn will answer it. Raises `BusUnavailable`."""


@dataclass(slots=True)
class _Waiting(Generic[RawT]):
    message: RawMessage[RawT]
    taken: asyncio.Future[None]
    is_next: bool = False
    """What was said before it has been read back."""


class Listener(Generic[RawT]):
    """The messages of one account: those of a room one at a time, in the order they were said."""

    def __init__(self, name: str, handler: MessageHandler, cursors: ReadCursors, source: MessageSource[RawT]) -> None:
        self._name = name
        self._handler = handler
        self._cursors = cursors
        self._source = source
        self._waiting: deque[_Waiting[RawT]] = deque()
        self._held: dict[str, list[_Waiting[RawT]]] = {}
        self._backfill = BackfillQueue(first_s=RETRY_FIRST_S, cap_s=RETRY_CAP_S)
        self._has_gap = True
        self._gaps = 1
        self._read_back = 0
        self._shared_until_s = float("-inf")
        self._look_at_s = float("inf")
        self._live = asyncio.Event()
        self._lag = asyncio.Event()
        self._met = asyncio.Event()
        self.poisoned = 0
        """Messages that could not be understood, since the start."""

    @property
    def is_caught_up(self) -> bool:
        """Tell whether nothing that we know of is missing."""
        return not self._has_gap and not self._backfill

    def hear(self, message: RawMessage[RawT]) -> asyncio.Future[None]:
        """Take a live message. The future is done when the bus has it, or raises `NotTaken`."""
        waiting = _waiting(message)
        if message.message_id and self._cursors.meet(message.place, message.message_id):
            self._met.set()  # on record soon: a kill now must not make us forget that the place exists
        if len(self._waiting) + sum(map(len, self._held.values())) >= WAITING_MAX:
            log.warning("%s: more than %d messages wait; they are read back", self._name, WAITING_MAX)
            self._leave_to_history(waiting)
            self._leave_all_to_history()
            return waiting.taken
        self._insert(waiting)
        self._live.set()
        return waiting.taken

    def _insert(self, waiting: _Waiting[RawT]) -> None:
        """Insert the message after all others, but before the messages of its place that were said later: several
        connections bring messages in no order."""
        message, at = waiting.message, len(self._waiting)
        for index in range(len(self._waiting) - 1, -1, -1):
            other = self._waiting[index].message
            if other.place != message.place:
                continue
            if not message.message_id or not self._cursors.is_later(other.message_id, than=message.message_id):
                break
            at = index
        self._waiting.insert(at, waiting)

    def note_gap(self) -> None:
        """Read history first from here on, since messages may have been missed."""
        self._has_gap = True
        self._gaps += 1
        self._leave_all_to_history()

    def share(self, is_shared: bool) -> None:
        """Note whether other connections to the account are open. Their machine may be gone, and what the platform
        sends there comes late: so for SHARED_FOR_S each message is read back together with what was said before it,
        and the rooms where people talk are looked at although nothing is heard from them."""
        now_s = self._now_s()
        self._shared_until_s = now_s + SHARED_FOR_S if is_shared else float("-inf")
        self._look_at_s = now_s if is_shared else float("inf")
        self._lag.set()

    async def run(self) -> None:
        """Take messages until cancelled."""
        try:
            await first_to_end(self._take_live(), self._catch_up(), self._keep_cursors())
        finally:
            self.note_gap()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD_S):
                    await self._save()

    # --- live messages

    async def _take_live(self) -> None:
        while True:
            while self._waiting and not self._has_gap:
                await self._take_next()
            self._live.clear()
            await self._live.wait()

    async def _take_next(self) -> None:
        waiting = self._waiting.popleft()
        message = waiting.message
        try:
            if message.room in self._backfill or self._may_follow_another(waiting):
                self._hold(waiting)
                # A control command does not wait for the room's history. The cursor stays, because other
                # messages of the room have not been taken yet.
                incoming = await self._understood(waiting.message)
                if isinstance(incoming, Incoming) and incoming.is_control:
                    await self._accept(waiting.message, incoming)
                    _done(waiting)
                return
            await self._take(waiting)
        except QueueFull as error:
            log.warning("%s: %s", self._name, error)
            self._leave_to_history(waiting)
        except BusUnavailable as error:
            log.warning("%s: the bus is away, messages will be read back: %s", self._name, error)
            self._leave_to_history(waiting)
            self._leave_all_to_history()
        except BaseException:
            self._leave_to_history(waiting)
            raise

    def _may_follow_another(self, waiting: _Waiting[RawT]) -> bool:
        """Tell whether something that was said before it may be on its way over another connection."""
        is_recorded = bool(waiting.message.message_id) and not waiting.is_next
        return is_recorded and self._now_s() < self._shared_until_s

    def _hold(self, waiting: _Waiting[RawT]) -> None:
        room = waiting.message.room
        if room not in self._backfill:
            self._backfill.add((room,))
            self._lag.set()
        if room not in self._held:
            self._backfill.put_first(room)
        self._held.setdefault(room, []).append(waiting)

    async def _take(self, waiting: _Waiting[RawT]) -> IntakeOutcome | None:
        """Hand it in; from then on its place is read up to it."""
        outcome = await self._accept(waiting.message, await self._understood(waiting.message))
        self._reached(waiting.message)
        _done(waiting)
        return outcome

    # --- history

    def _leave_to_history(self, waiting: _Waiting[RawT]) -> None:
        """Leave the message to the history of its room, which is read again from before this message."""
        message = waiting.message
        if message.message_id:
            self._cursors.move_back(message.place, message.message_id)
            if message.room not in self._backfill:
                self._backfill.add((message.room,))
                self._backfill.postpone(message.room, self._now_s())
            self._lag.set()
        if not waiting.taken.done():
            waiting.taken.set_exception(NotTaken())

    def _leave_all_to_history(self) -> None:
        while self._waiting:
            self._leave_to_history(self._waiting.popleft())
        for room in tuple(self._held):
            for waiting in self._held.pop(room):
                self._leave_to_history(waiting)
        self._lag.set()

    async def _catch_up(self) -> None:
        backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S)
        while True:
            now_s = self._now_s()
            if now_s >= self._look_at_s:
                self._look_at_shared(now_s)
            if self._has_gap:
                await self._find_rooms(backoff)
            elif (room := self._backfill.next(now_s)) is not None:
                await self._read(room, backoff)
            else:
                self._lag.clear()
                await wait_at_most(self._lag, self._wait_s(now_s))

    def _wait_s(self, now_s: float) -> float | None:
        """Return how long until something is to be read, None when nothing is."""
        waits_s = [self._backfill.wait_s(now_s), self._look_at_s - now_s if self._look_at_s < float("inf") else None]
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def _look_at_shared(self, now_s: float) -> None:
        """Read the most recent rooms back; at the end all of them."""
        self._look_at_s = now_s + SHARED_LOOK_EVERY_S
        if now_s >= self._shared_until_s:
            self._look_at_s = float("inf")
            self.note_gap()
            return
        recent = list(dict.fromkeys(room_of(place) for place in reversed(self._cursors.places)))[:SHARED_ROOMS_MAX]
        self._backfill.add(room for room in recent if room not in self._backfill)

    async def _find_rooms(self, backoff: Backoff) -> None:
        """Ask which rooms may lag. Until that is known, nothing new is taken from any of them."""
        gaps = self._gaps
        try:
            rooms = await self._source.rooms()
        except (BusUnavailable, HistoryUnavailable) as error:
            log.warning("%s: what was missed is not known yet: %s", self._name, error)
            await asyncio.sleep(backoff.next_s())
            return
        self._backfill.add(rooms)
        if gaps == self._gaps:
            self._has_gap = False
            self._all_read_if_so()
        self._live.set()

    async def _read(self, room: str, backoff: Backoff) -> None:
        """Read a room to its end, or put it off."""
        gaps = self._gaps
        try:
            async for message in self._source.missed(room):
                outcome = await self._take(_waiting(message))
                self._read_back += outcome is IntakeOutcome.QUEUED
        except QueueFull as error:
            log.warning("%s: %s", self._name, error)
            self._backfill.postpone(room, self._now_s())
            return
        except BusUnavailable as error:
            log.warning("%s: the bus is away, history cannot be taken in: %s", self._name, error)
            self._backfill.postpone(room, self._now_s())
            await asyncio.sleep(backoff.next_s())
            return
        except Exception as error:  # named boundary, adapter callback: one unreadable room must not shut the others
            log.warning("%s: room %s cannot be read back now: %s", self._name, room, repr(error))
            if self._backfill.postpone(room, self._now_s()) < READ_TRIES_MAX:
                return
            log.exception("%s: room %s is given up: what was missed in it stays missed", self._name, room)
        backoff.reset()
        if gaps == self._gaps:
            self._backfill.done(room)
            held = self._held.pop(room, [])
            for waiting in held:
                waiting.is_next = True
            self._waiting.extendleft(reversed(held))
            self._all_read_if_so()
            self._live.set()

    def _all_read_if_so(self) -> None:
        if self.is_caught_up:
            self._cursors.settle()
            log.info("%s: caught up, %d messages read back", self._name, self._read_back)
            self._read_back = 0

    # --- one message

    async def _understood(self, message: RawMessage[RawT]) -> Incoming | Retraction | None:
        try:
            return await self._source.understand(message)
        except BusUnavailable:
            raise
        except Exception:  # named boundary, adapter callback: one poisonous message must not hold up the others
            self.poisoned += 1
            log.exception("%s: message %s is skipped: it cannot be understood", self._name, message.message_id)
            return None

    async def _accept(self, message: RawMessage[RawT], incoming: Incoming | Retraction | None) -> IntakeOutcome | None:
        if incoming is None:
            return None
        if isinstance(incoming, Retraction):
            return await self._handler.retract(incoming)
        if message.message_id:
            self._cursors.meet(message.place, message.message_id)
        if self._cursors.has_unrecorded_place:
            await self._cursors.save()
        outcome = await self._handler.accept(incoming)
        if outcome in (IntakeOutcome.QUEUED, IntakeOutcome.DUPLICATE):
            await self._source.taken(incoming)
        return outcome

    def _reached(self, message: RawMessage[RawT]) -> None:
        if message.message_id:
            self._cursors.reach(message.place, message.message_id)
            if self.is_caught_up:
                self._cursors.settle()

    # --- cursors

    async def _keep_cursors(self) -> None:
        """Write the cursors down, at once when a place is new, otherwise every few seconds."""
        while True:
            await wait_at_most(self._met, SAVE_EVERY_S)
            self._met.clear()
            await self._save()

    async def _save(self) -> None:
        try:
            await self._cursors.save()
        except BusUnavailable:
            log.debug("%s: marks are saved when the bus is back", self._name)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


def _waiting(message: RawMessage[RawT]) -> _Waiting[RawT]:
    taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taken.add_done_callback(_look_at)
    return _Waiting(message, taken)


def _done(waiting: _Waiting[RawT]) -> None:
    if not waiting.taken.done():
        waiting.taken.set_result(None)


def _look_at(taken: asyncio.Future[None]) -> None:
    """Read the future's exception, so that asyncio does not complain: Discord acknowledges nothing, so perhaps nobody
    waits for the future."""
    if not taken.cancelled():
        taken.exception()
