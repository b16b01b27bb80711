"""What was heard and may not be acknowledged yet, place by place, in order.

At the head of a place stands a message that the door holds back; behind it what was said in that place since. That
is on the bus already, but to say that it was reached would say so of what stands before it, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Aside(Generic[ItemT]):
    """Those of one account."""

    def __init__(self) -> None:
        self._places: dict[str, deque[ItemT]] = {}
        self._filled = asyncio.Event()

    def __contains__(self, place: str) -> bool:
        return place in self._places

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(self._places)

    async def until_filled(self) -> None:
        """Wait until something stands aside."""
        await self._filled.wait()

    def put(self, place: str, item: ItemT) -> None:
        """Behind all others of its place."""
        self._places.setdefault(place, deque()).append(item)
        self._filled.set()

    def first(self, place: str) -> ItemT | None:
        """What stands at the head of a place."""
        return self._places[place][0] if place in self._places else None

    def drop_first(self, place: str) -> None:
        """It stands aside no more."""
        self._places[place].popleft()
        if not self._places[place]:
            del self._places[place]
        if not self._places:
            self._filled.clear()

    def drain(self) -> list[ItemT]:
        """Take everything out."""
        items = [item for place in self._places.values() for item in place]
        self._places.clear()
        self._filled.clear()
        return items
