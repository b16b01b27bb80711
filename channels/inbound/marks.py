"""How far a channel has listened: the last message of each place that is on the bus, kept on the bus itself.

Platforms that keep no queue for us (Discord, and Slack after a few minutes) are read back from these
marks after a restart or a lost connection. Marks may lag: what is read twice, the bus knows by its id.
They may not lead: a mark never stands at or behind a message that was heard and is not on the bus.
And that a place exists may not be forgotten: a bot cannot list its direct chats on Discord, so nothing
else knows of them. All marks of an account are one JSON value, written at once for each new place and
otherwise every few seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway.bus.inbound import Inbound

PLACES_MAX: Final = 2_000  # the most recent ones; a place that fell out is read from the account's mark
_NEWEST: Final = "newest"
_PLACES: Final = "places"


@dataclass(frozen=True, slots=True)
class Order:
    """How a platform's message ids follow each other: `key` compares, `before` names the moment just before one."""

    key: Callable[[str], Any]
    before: Callable[[str], str]


class Marks:
    """The marks of one account."""

    def __init__(self, positions: Inbound, name: str, order: Order) -> None:
        self._positions = positions
        self._name = name
        self._order = order
        self._places: OrderedDict[str, str] = OrderedDict()
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
        self._places = OrderedDict((str(place), str(last)) for place, last in kept[_PLACES])
        return True

    def is_later(self, message_id: str, *, than: str) -> bool:
        """Whether it was said after the other one; one without an id never was."""
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
        """The newest message seen anywhere: where a place without a mark of its own begins."""
        return self._newest

    @property
    def places(self) -> tuple[str, ...]:
        """Places with a mark, the most recent last."""
        return tuple(self._places)

    def of(self, place: str) -> str:
        """The last message of a place that is on the bus, or the account's newest."""
        return self._places.get(place, self._newest)

    def meet(self, place: str, message_id: str) -> bool:
        """A message of this place was heard; True when the place is news. It then begins at the account's mark,
        in any case before the message."""
        if place in self._places:
            return False
        just_before = self._order.before(message_id)
        is_earlier = bool(self._newest) and self._order.key(just_before) < self._order.key(self._newest)
        self._put(place, just_before if is_earlier else self._newest)
        self.has_unrecorded_place = True
        return True

    def reach(self, place: str, message_id: str) -> None:
        """The message is on the bus, or is none of ours."""
        known = self._places.get(place)
        if known and self._order.key(message_id) <= self._order.key(known):
            return
        self._put(place, message_id)
        if not self._ahead or self._order.key(message_id) > self._order.key(self._ahead):
            self._ahead = message_id

    def fall_back(self, place: str, message_id: str) -> None:
        """The message was heard and is not on the bus: the place is read back from before it."""
        known = self._places.get(place)
        if known is None:
            self.meet(place, message_id)
        elif known and self._order.key(known) >= self._order.key(message_id):
            self._put(place, self._order.before(message_id))

    def settle(self) -> None:
        """No place lags behind any more, so the account's mark may follow the newest message reached."""
        self._newest = self._ahead

    async def begin(self, message_id: str) -> None:
        """Nothing before this message concerns us: the very first start, on record. Raises `BusUnavailable`."""
        self._newest = self._ahead = message_id
        self._is_dirty = True
        await self.save()

    def _put(self, place: str, message_id: str) -> None:
        self._places[place] = message_id
        self._places.move_to_end(place)
        while len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)
        self._is_dirty = True
