"""Live messages in order, and history first after any gap.

For platforms that push: what was not taken (the bus was away, or full) or not heard (the connection was
lost) is read back from the platform's own history, from the marks on. A room that is behind is read back
before anything new of it is taken; the other rooms go on meanwhile, and so do the commands that never
wait. Should too many messages wait, they are dropped, because history has them too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from channels.adapter import MessageDoor, Outcome, QueueFull
from channels.backoff import Backoff
from channels.inbound.behind import Behind, room_of
from channels.inbound.marks import Marks
from channels.normalized import Incoming, Retraction
from channels.together import first_to_end
from gateway.contracts.errors import BusUnavailable

log = logging.getLogger(__name__)

WAITING_MAX: Final = 1_000
SAVE_EVERY_S: Final = 2.0
LAST_WORD_S: Final = 0.5  # somebody else may begin soon after: a bus that does not answer must not hold us up
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 30.0
READ_TRIES_MAX: Final = 16  # some four minutes; a room that cannot be read for longer must not stay shut


RawT = TypeVar("RawT")


class NotTaken(Exception):
    """The message is not on the bus: do not acknowledge it."""


class HistoryUnavailable(Exception):
    """The platform's history cannot be read now; it is asked again later."""


@dataclass(frozen=True, slots=True)
class Heard(Generic[RawT]):
    """One message of a place as the platform tells it. An empty `message_id` stands in no history."""

    place: str
    message_id: str
    raw: RawT

    @property
    def room(self) -> str:
        return room_of(self.place)


class Source(Protocol[RawT]):
    """The platform's side of listening."""

    async def rooms(self) -> Sequence[str]:
        """Where something may have been said since the marks. May raise `HistoryUnavailable`."""
        ...

    def missed(self, room: str) -> AsyncIterator[Heard[RawT]]:
        """What was said in a room since its marks, oldest first. May raise `HistoryUnavailable`."""
        ...

    async def understand(self, heard: Heard[RawT]) -> Incoming | Retraction | None:
        """The message if it is ours to answer, or that one was deleted. Raises `BusUnavailable`; anything else
        marks it as poisonous."""
        ...

    async def taken(self, incoming: Incoming) -> None:
        """The bus has it and a turn will answer it. Raises `BusUnavailable`."""
        ...


@dataclass(slots=True)
class _Waiting(Generic[RawT]):
    heard: Heard[RawT]
    taken: asyncio.Future[None]


class Listener(Generic[RawT]):
    """The messages of one account: those of a room one at a time, in the order they were said."""

    def __init__(self, name: str, door: MessageDoor, marks: Marks, source: Source[RawT]) -> None:
        self._name = name
        self._door = door
        self._marks = marks
        self._source = source
        self._waiting: deque[_Waiting[RawT]] = deque()
        self._held: dict[str, list[_Waiting[RawT]]] = {}
        self._behind = Behind(first_s=RETRY_FIRST_S, cap_s=RETRY_CAP_S)
        self._has_gap = True
        self._gaps = 1
        self._read_back = 0
        self._live = asyncio.Event()
        self._lag = asyncio.Event()
        self._met = asyncio.Event()
        self.poisoned = 0
        """Messages that could not be understood, since the start."""

    @property
    def is_caught_up(self) -> bool:
        """True when nothing that we know of is missing."""
        return not self._has_gap and not self._behind

    def hear(self, heard: Heard[RawT]) -> asyncio.Future[None]:
        """A live message. The future is done when the bus has it, or raises `NotTaken`."""
        waiting = _waiting(heard)
        if heard.message_id and self._marks.meet(heard.place, heard.message_id):
            self._met.set()  # on record soon: whoever kills us now must not make us forget that the place exists
        if len(self._waiting) + sum(map(len, self._held.values())) >= WAITING_MAX:
            log.warning("%s: more than %d messages wait; they are read back", self._name, WAITING_MAX)
            self._leave_to_history(waiting)
            self._leave_all_to_history()
            return waiting.taken
        self._line_up(waiting)
        self._live.set()
        return waiting.taken

    def _line_up(self, waiting: _Waiting[RawT]) -> None:
        """Behind all others, but before what was said after it in its place: what comes over several connections comes
        in no order."""
        heard, at = waiting.heard, len(self._waiting)
        for index in range(len(self._waiting) - 1, -1, -1):
            other = self._waiting[index].heard
            if other.place != heard.place:
                continue
            if not heard.message_id or not self._marks.is_later(other.message_id, than=heard.message_id):
                break
            at = index
        self._waiting.insert(at, waiting)

    def lost_touch(self) -> None:
        """Something may have been said that was not heard: from here on history comes first."""
        self._has_gap = True
        self._gaps += 1
        self._leave_all_to_history()

    async def run(self) -> None:
        """Take messages until cancelled."""
        try:
            await first_to_end(self._take_live(), self._catch_up(), self._keep_marks())
        finally:
            self.lost_touch()
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
        heard = waiting.heard
        try:
            if heard.room in self._behind:
                self._hold(waiting)
                await self._let_control_through(waiting)
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

    def _hold(self, waiting: _Waiting[RawT]) -> None:
        room = waiting.heard.room
        if room not in self._held:
            self._behind.hurry(room)
        self._held.setdefault(room, []).append(waiting)

    async def _let_control_through(self, waiting: _Waiting[RawT]) -> None:
        """It does not wait for the room's history. The mark stays: others of the room have not been taken yet."""
        incoming = await self._understood(waiting.heard)
        if isinstance(incoming, Incoming) and incoming.is_control:
            await self._accept(waiting.heard, incoming)
            _done(waiting)

    async def _take(self, waiting: _Waiting[RawT]) -> Outcome | None:
        """Hand it in; from then on its place is read up to it."""
        outcome = await self._accept(waiting.heard, await self._understood(waiting.heard))
        self._reached(waiting.heard)
        _done(waiting)
        return outcome

    # --- history

    def _leave_to_history(self, waiting: _Waiting[RawT]) -> None:
        """It is not taken now: its room is behind, from before this message on."""
        heard = waiting.heard
        if heard.message_id:
            self._marks.fall_back(heard.place, heard.message_id)
            if heard.room not in self._behind:
                self._behind.add((heard.room,))
                self._behind.postpone(heard.room, self._now_s())
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
            if self._has_gap:
                await self._look_around(backoff)
            elif (room := self._behind.next(now_s)) is not None:
                await self._read(room, backoff)
            else:
                self._lag.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._behind.wait_s(now_s)):
                        await self._lag.wait()

    async def _look_around(self, backoff: Backoff) -> None:
        """Ask which rooms may be behind. Until that is known, nothing new is taken from any of them."""
        gaps = self._gaps
        try:
            rooms = await self._source.rooms()
        except (BusUnavailable, HistoryUnavailable) as error:
            log.warning("%s: what was missed is not known yet: %s", self._name, error)
            await asyncio.sleep(backoff.next_s())
            return
        self._behind.add(rooms)
        if gaps == self._gaps:
            self._has_gap = False
            self._all_read_if_so()
        self._live.set()

    async def _read(self, room: str, backoff: Backoff) -> None:
        """Read a room to its end, or put it off."""
        gaps = self._gaps
        try:
            async for heard in self._source.missed(room):
                outcome = await self._take(_waiting(heard))
                self._read_back += outcome is Outcome.QUEUED
        except QueueFull as error:
            log.warning("%s: %s", self._name, error)
            self._behind.postpone(room, self._now_s())
            return
        except BusUnavailable as error:
            log.warning("%s: the bus is away, history cannot be taken in: %s", self._name, error)
            self._behind.postpone(room, self._now_s())
            await asyncio.sleep(backoff.next_s())
            return
        except Exception as error:  # named boundary, adapter callback: one unreadable room must not shut the others
            log.warning("%s: room %s cannot be read back now: %s", self._name, room, repr(error))
            if self._behind.postpone(room, self._now_s()) < READ_TRIES_MAX:
                return
            log.exception("%s: room %s is given up: what was missed in it stays missed", self._name, room)
        backoff.reset()
        if gaps == self._gaps:
            self._behind.done(room)
            self._let_in(room)

    def _let_in(self, room: str) -> None:
        """What waited for the room's history comes next."""
        self._waiting.extendleft(reversed(self._held.pop(room, [])))
        self._all_read_if_so()
        self._live.set()

    def _all_read_if_so(self) -> None:
        if self.is_caught_up:
            self._marks.settle()
            log.info("%s: caught up, %d messages read back", self._name, self._read_back)
            self._read_back = 0

    # --- one message

    async def _understood(self, heard: Heard[RawT]) -> Incoming | Retraction | None:
        try:
            return await self._source.understand(heard)
        except BusUnavailable:
            raise
        except Exception:  # named boundary, adapter callback: one poisonous message must not hold up the others
            self.poisoned += 1
            log.exception("%s: message %s is skipped: it cannot be understood", self._name, heard.message_id)
            return None

    async def _accept(self, heard: Heard[RawT], incoming: Incoming | Retraction | None) -> Outcome | None:
        if incoming is None:
            return None
        if isinstance(incoming, Retraction):
            return await self._door.retract(incoming)
        if heard.message_id:
            self._marks.meet(heard.place, heard.message_id)
        if self._marks.has_unrecorded_place:
            await self._marks.save()
        outcome = await self._door.accept(incoming)
        if outcome in (Outcome.QUEUED, Outcome.DUPLICATE):
            await self._source.taken(incoming)
        return outcome

    def _reached(self, heard: Heard[RawT]) -> None:
        if heard.message_id:
            self._marks.reach(heard.place, heard.message_id)
            if self.is_caught_up:
                self._marks.settle()

    # --- marks

    async def _keep_marks(self) -> None:
        """On record at once when a place is new, else every few seconds."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_EVERY_S):  # wait_for may swallow a cancellation before Python 3.12
                    await self._met.wait()
            self._met.clear()
            await self._save()

    async def _save(self) -> None:
        try:
            await self._marks.save()
        except BusUnavailable:
            log.debug("%s: marks are saved when the bus is back", self._name)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


def _waiting(heard: Heard[RawT]) -> _Waiting[RawT]:
    taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taken.add_done_callback(_look_at)
    return _Waiting(heard, taken)


def _done(waiting: _Waiting[RawT]) -> None:
    if not waiting.taken.done():
        waiting.taken.set_result(None)


def _look_at(taken: asyncio.Future[None]) -> None:
    """Discord acknowledges nothing, so nobody may be waiting for this future's exception."""
    if not taken.cancelled():
        taken.exception()
