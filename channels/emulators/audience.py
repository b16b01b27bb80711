"""Everyone who watches a stage: each gets every event from the moment of asking, in order."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from typing import Final

from channels.emulators.stage import StageEvent

EVENTS_PER_LISTENER_MAX: Final = 10_000  # a page nobody reads any more must not fill the memory


class Audience:
    """Tells every listener of a stage what happened, each at its own speed."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()

    def tell(self, event: StageEvent) -> None:
        """Hand the event to everybody who listens now. A listener that fell far behind loses the oldest."""
        for listener in list(self._listeners):
            listener.hear(event)

    def listen(self) -> AsyncIterator[StageEvent]:
        """Every event from this call on, not from the first time it is awaited; whoever lets go of it is forgotten."""
        listener = _Listener()
        self._listeners.add(listener)
        return listener


class _Listener(AsyncIterator[StageEvent]):
    def __init__(self) -> None:
        self._heard: asyncio.Queue[StageEvent] = asyncio.Queue(EVENTS_PER_LISTENER_MAX)

    def hear(self, event: StageEvent) -> None:
        if self._heard.full():
            self._heard.get_nowait()
        self._heard.put_nowait(event)

    async def __anext__(self) -> StageEvent:
        return await self._heard.get()
