"""Live messages in order, and history first after any gap.

For platforms that push: what was not taken (the bus was away) or not heard (the connection was) is read
back from the platform's own history, from the marks on, before the next live message is taken. While
that goes on live messages wait; should too many wait, they are dropped, because history has them too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from channels.adapter import Door, Outcome
from channels.backoff import Backoff
from channels.marks import Marks
from channels.normalized import Incoming
from gateway.contracts.errors import BusUnavailable

log = logging.getLogger(__name__)

WAITING_MAX: Final = 1_000
SAVE_EVERY_S: Final = 2.0
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 30.0


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


class Source(Protocol[RawT]):
    """The platform's side of listening."""

    def missed(self) -> AsyncIterator[Heard[RawT]]:
        """What was said since the marks, in each place oldest first. May raise `HistoryUnavailable`."""
        ...

    async def understand(self, heard: Heard[RawT]) -> Incoming | None:
        """The message if it is ours to answer. Raises `BusUnavailable`; anything else marks it as poisonous."""
        ...

    async def taken(self, incoming: Incoming) -> None:
        """The bus has it and a turn will answer it. Raises `BusUnavailable`."""
        ...


@dataclass(slots=True)
class _Waiting(Generic[RawT]):
    heard: Heard[RawT]
    taken: asyncio.Future[None]


class Listener(Generic[RawT]):
    """The live messages of one account, one at a time, in the order they came."""

    def __init__(self, name: str, door: Door, marks: Marks, source: Source[RawT]) -> None:
        self._name = name
        self._door = door
        self._marks = marks
        self._source = source
        self._waiting: deque[_Waiting[RawT]] = deque()
        self._stirred = asyncio.Event()
        self._has_gap = True
        self._is_reading_back = False
        self._saved_at_s = 0.0
        self.poisoned = 0
        """Messages that could not be understood, since the start."""

    @property
    def is_caught_up(self) -> bool:
        """True when nothing that we know of is missing."""
        return not self._has_gap and not self._is_reading_back

    def hear(self, heard: Heard[RawT]) -> asyncio.Future[None]:
        """A live message. The future is done when the bus has it, or raises `NotTaken`."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taken.add_done_callback(_look_at)
        if len(self._waiting) >= WAITING_MAX:
            taken.set_exception(NotTaken())
            self.lost_touch()
            return taken
        self._waiting.append(_Waiting(heard, taken))
        self._stirred.set()
        return taken

    def lost_touch(self) -> None:
        """Something was missed: from here on history comes first."""
        self._has_gap = True
        while self._waiting:
            _fail(self._waiting.popleft())
        self._stirred.set()

    async def run(self) -> None:
        """Take messages until cancelled."""
        try:
            while True:
                if self._has_gap:
                    await self._close_gap()
                while self._waiting and not self._has_gap:
                    await self._take_next()
                await self._rest()
        finally:
            self.lost_touch()
            await self._save()

    async def _take_next(self) -> None:
        waiting = self._waiting.popleft()
        try:
            await self._take(waiting.heard)
        except BusUnavailable as error:
            log.warning("%s: the bus is away, history will be read back: %s", self._name, error)
            _fail(waiting)
            self.lost_touch()
        except BaseException:
            _fail(waiting)
            raise
        else:
            self._marks.settle()
            if not waiting.taken.done():
                waiting.taken.set_result(None)

    async def _take(self, heard: Heard[RawT]) -> Outcome | None:
        outcome = None
        incoming = await self._understood(heard)
        if incoming is not None:
            if heard.message_id and self._marks.meet(heard.place):
                await self._marks.save()  # before it is taken: whoever kills us now must not make us forget the place
            outcome = await self._door.accept(incoming)
            if outcome in (Outcome.QUEUED, Outcome.DUPLICATE):
                await self._source.taken(incoming)
        if heard.message_id:
            self._marks.reach(heard.place, heard.message_id)
        return outcome

    async def _understood(self, heard: Heard[RawT]) -> Incoming | None:
        try:
            return await self._source.understand(heard)
        except BusUnavailable:
            raise
        except Exception:  # named boundary, adapter callback: one poisonous message must not hold up the others
            self.poisoned += 1
            log.exception("%s: message %s is skipped: it cannot be understood", self._name, heard.message_id)
            return None

    async def _close_gap(self) -> None:
        backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S)
        self._is_reading_back = True
        while self._has_gap:
            self._has_gap = False
            count = 0
            try:
                async for heard in self._source.missed():
                    count += await self._take(heard) is Outcome.QUEUED
            except (BusUnavailable, HistoryUnavailable) as error:
                log.warning("%s: history cannot be taken in yet: %s", self._name, error)
                self.lost_touch()
                await asyncio.sleep(backoff.next_s())
            else:
                log.info("%s: caught up, %d messages read back", self._name, count)
        self._marks.settle()
        self._is_reading_back = False

    async def _rest(self) -> None:
        """Until something is said, or it is time to save the marks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SAVE_EVERY_S):  # wait_for may swallow a cancellation before Python 3.12
                await self._stirred.wait()
        self._stirred.clear()
        now_s = asyncio.get_running_loop().time()
        if now_s - self._saved_at_s >= SAVE_EVERY_S:
            self._saved_at_s = now_s
            await self._save()

    async def _save(self) -> None:
        try:
            await self._marks.save()
        except BusUnavailable:
            log.debug("%s: marks are saved when the bus is back", self._name)


def _fail(waiting: _Waiting[RawT]) -> None:
    if not waiting.taken.done():
        waiting.taken.set_exception(NotTaken())


def _look_at(taken: asyncio.Future[None]) -> None:
    """Discord acknowledges nothing, so nobody may be waiting for this future's exception."""
    if not taken.cancelled():
        taken.exception()
