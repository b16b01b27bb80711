"""Where a chat lives: the id it has now, for what we send, and the one it had first, for what we remember.

A group of Telegram gets another id when it becomes a supergroup. Nothing that is stored changes with it:
the lane, the session, whatever hangs on a session key keep the first id, so a turn that runs at that moment
is answered once like any other; `Places.note_move` is the one fact that is written. What people say under
the new id is taken in under the first (`Doorstep`), and what we say goes to the newest (`Homes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channels.adapter import ChannelAdapter, Door, Outcome, SupportsMoves
from channels.inbound.company import Company
from channels.normalized import Incoming, Retraction
from gateway.bus.places import Places
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.suggestions import Suggestion


class Homes:
    """The addresses of one channel's replies and drafts. Raises `BusUnavailable`."""

    def __init__(self, adapter: ChannelAdapter, places: Places) -> None:
        self._channel = adapter.name
        self._moving = adapter if isinstance(adapter, SupportsMoves) else None
        self._places = places

    async def lanes(self, addresses: Sequence[ReplyAddress]) -> Sequence[str]:
        """The lane of each address. It is that of the first id, so that a move does not tear the order apart."""
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
        """The same place where it is now."""
        if self._moving is None or not (chat := self._moving.chat_of(address)):
            return address
        (newest,) = await self._places.newest_ids(self._channel, [chat])
        return address if newest == chat else self._moving.relocated(address, newest)


class Doorstep:
    """In front of the door: a chat that moved is known by its first id, a place where somebody speaks is alive, and
    bots do not talk to each other for ever."""

    def __init__(self, door: Door, adapter: ChannelAdapter, places: Places, company: Company | None = None) -> None:
        """`company` where other bots may be heard."""
        self._company = company
        self._door = door
        self._adapter = adapter
        self._places = places

    async def accept(self, incoming: Incoming) -> Outcome:
        """As the door does. Raises `BusUnavailable`."""
        seen = await self._seen(incoming)
        if self._company is not None and not await self._company.hears(seen):
            return Outcome.IGNORED
        return await self._door.accept(seen)

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        """As the door does. Raises `BusUnavailable`."""
        return await self._door.invoke(await self._seen(chosen))

    async def retract(self, retraction: Retraction) -> Outcome:
        """As the door does. Raises `BusUnavailable`."""
        return await self._door.retract(replace(retraction, place=await self._first_place(retraction.place)))

    async def press(self, press: Incoming) -> CleanText | None:
        """As the door does: a press belongs to a person, wherever it was made. Raises `BusUnavailable`."""
        return await self._door.press(press)

    async def told(self, press: Incoming) -> CleanText:
        return await self._door.told(press)

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        """As the door does."""
        return await self._door.suggest(replace(typing, place=await self._first_place(typing.place)))

    async def _seen(self, incoming: Incoming) -> Incoming:
        if incoming.is_addressed:
            await self._places.revive(f"{self._adapter.account}:{incoming.address.lane}")
        return replace(incoming, place=await self._first_place(incoming.place))

    async def _first_place(self, place: tuple[str, ...]) -> tuple[str, ...]:
        if not place or not isinstance(self._adapter, SupportsMoves):
            return place
        (first,) = await self._places.first_ids(self._adapter.name, place[:1])
        return (first, *place[1:])
