"""Places where people talk: chats that get another id, and threads that the bot has joined.

A group of Telegram gets another id when it becomes a supergroup. Nothing that is stored changes with it: the lane,
the session and all that belongs to a session key keep the first id, so a turn that runs at that moment is answered
once like any other; `PlaceBus.note_move` writes the one fact. Messages from people under the new id are taken in
under the first (`PlaceTrackingHandler`), and our messages go to the newest (`AddressResolver`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from channels.core.adapter import ChannelAdapter, InboundHandler, IntakeOutcome, SupportsMoves
from channels.core.admission import BotLoopGuard
from channels.core.message import Incoming, RawQuote, Retraction
from gateway.bounded_dict import BoundedDict
from gateway.bus.inbound import Inbound
from gateway.bus.places import Places
from gateway.contracts.commands import Suggestion
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText

log = logging.getLogger(__name__)


class AddressResolver:
    """The addresses of one channel's replies and drafts. Raises `BusUnavailable`."""

    def __init__(self, adapter: ChannelAdapter, places: Places) -> None:
        self._channel = adapter.name
        self._moving = adapter if isinstance(adapter, SupportsMoves) else None
        self._places = places

    async def lanes(self, addresses: Sequence[ReplyAddress]) -> Sequence[str]:
        """Return the lane of each address: that of the first id, so that a move does not break the order."""
        if self._moving is None:
            return [address.lane for address in addresses]
        chats = [self._moving.chat_of(address) for address in addresses]
        movable = sorted({chat for chat in chats if chat})
        firsts = dict(zip(movable, await self._places.first_ids(self._channel, movable), strict=True))
        return [
            self._moving.relocated(address, firsts[chat]).lane if chat and firsts[chat] != chat else address.lane
            for address, chat in zip(addresses, chats, strict=True)
        ]

    async def newest(self, address: ReplyAddress) -> ReplyAddress:
        """Return the same place with its present id."""
        if self._moving is None or not (chat := self._moving.chat_of(address)):
            return address
        (newest,) = await self._places.newest_ids(self._channel, [chat])
        return address if newest == chat else self._moving.relocated(address, newest)


class PlaceTrackingHandler:
    """The handler before intake. It gives a chat that moved its first id, notes that a place where somebody speaks
    is alive, and stops endless talk between bots."""

    def __init__(
        self, handler: InboundHandler, adapter: ChannelAdapter, places: Places, loop_guard: BotLoopGuard | None = None
    ) -> None:
        """Use `loop_guard` where other bots may be heard."""
        self._loop_guard = loop_guard
        self._handler = handler
        self._adapter = adapter
        self._places = places

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        """Pass it on to intake. Raises `BusUnavailable`."""
        seen = await self._seen(incoming)
        if self._loop_guard is not None and not await self._loop_guard.hears(seen):
            return IntakeOutcome.IGNORED
        return await self._handler.accept(seen)

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        """Pass it on to intake. Raises `BusUnavailable`."""
        return await self._handler.invoke(await self._seen(chosen))

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        """Pass it on to intake. Raises `BusUnavailable`."""
        return await self._handler.retract(replace(retraction, place=await self._first_place(retraction.place)))

    async def press(self, press: Incoming) -> CleanText | None:
        """Pass it on: a press belongs to a person, wherever it was made. Raises `BusUnavailable`."""
        return await self._handler.press(press)

    async def told(self, press: Incoming) -> CleanText:
        return await self._handler.told(press)

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        """Pass it on to intake."""
        return await self._handler.suggest(replace(typing, place=await self._first_place(typing.place)))

    async def _seen(self, incoming: Incoming) -> Incoming:
        if incoming.is_addressed:
            await self._places.mark_alive(f"{self._adapter.account}:{incoming.address.lane}")
        place = await self._first_place(incoming.place)
        return incoming if place == incoming.place else replace(incoming, place=place)

    async def _first_place(self, place: tuple[str, ...]) -> tuple[str, ...]:
        if not place or not isinstance(self._adapter, SupportsMoves):
            return place
        (first,) = await self._places.first_ids(self._adapter.name, place[:1])
        return (first, *place[1:])


# The threads the bot takes part in, where people need not mention it again. Durable, on the bus.

THREADS_KNOWN_MAX: Final = 5_000  # remembered in memory; the durable set is on the bus


class JoinedThreads:
    """The threads of one account, which `prefix` names. Raises `BusUnavailable`."""

    def __init__(self, positions: Inbound, prefix: str) -> None:
        self._positions = positions
        self._prefix = prefix
        self._joined: BoundedDict[str, None] = BoundedDict(THREADS_KNOWN_MAX)

    async def has_joined(self, channel_id: str, thread_id: str) -> bool:
        """Tell whether the bot was called into this thread before."""
        name = self._name(channel_id, thread_id)
        if name not in self._joined and await self._positions.position(name) is not None:
            self._remember(name)
        return name in self._joined

    async def join(self, channel_id: str, thread_id: str) -> None:
        """Treat what is said in this thread from now on as said to the bot."""
        name = self._name(channel_id, thread_id)
        if name not in self._joined:
            await self._positions.set_position(name, thread_id)
            self._remember(name)

    def _name(self, channel_id: str, thread_id: str) -> str:
        return f"{self._prefix}:thread:{channel_id}:{thread_id}"

    def _remember(self, name: str) -> None:
        """Remember that the thread was joined. The opposite is not remembered, since another process may join the
        thread."""
        self._joined[name] = None


# The earlier messages of a thread, for the first message that a lane has of it.
#
# Each person in a thread has a lane of their own. No lane knows the messages before its first one there, nor our own
# message under which the thread was begun.

_REMEMBERED: Final = 500  # messages whose quotes are kept for an edit of them, or for their second event


class ThreadContextLoader:
    """The loader of earlier messages of a thread, for one account, which `prefix` names; the bus knows which lane was
    told of which thread. Raises `BusUnavailable`, but nothing for a platform that does not answer: a message without
    its context is still a message."""

    def __init__(self, positions: Inbound, prefix: str, *, wait_s: float) -> None:
        self._read = JoinedThreads(positions, f"{prefix}:read")
        self._wait_s = wait_s
        self._found: BoundedDict[str, tuple[RawQuote, ...]] = BoundedDict(_REMEMBERED)

    async def of(
        self, incoming: Incoming, read_back: Callable[[], Awaitable[tuple[RawQuote, ...]]]
    ) -> tuple[RawQuote, ...]:
        """Return the quotes that go along with a message, which `read_back` fetches from the platform; an edit has the
        quotes of its message."""
        if incoming.id in self._found or incoming.is_edit:
            return self._found.get(incoming.id, ())
        if len(incoming.place) < 2 or await self._read.has_joined(*_reader(incoming)):
            return ()
        try:
            async with asyncio.timeout(self._wait_s):
                quotes = await read_back()
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: context is never worth one
            log.info("%s: a thread is not read back: %s", incoming.channel, type(error).__name__)
            return ()
        self.told(incoming, quotes)
        return quotes

    def told(self, incoming: Incoming, quotes: tuple[RawQuote, ...] = ()) -> None:
        """Set the quotes that go along with a message; there are none for the message that begins a thread."""
        self._found[incoming.id] = quotes

    async def taken(self, incoming: Incoming) -> None:
        """Note that the lane has the message: the lane is told of this thread no more. Raises `BusUnavailable`."""
        if incoming.id in self._found:
            await self._read.join(*_reader(incoming))


def _reader(incoming: Incoming) -> tuple[str, str]:
    channel, thread = incoming.place[-2:]
    return channel, f"{thread}:{incoming.user_id}"
