"""Everyone who watches a stage: each gets every event from the moment of asking, in order."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from typing import Final

from channels.emulators.stage import StageEvent

EVENTS_WAITING_MAX: Final = 10_000  # a watcher that never reads must not eat the memory of a long run


class Watcher(AsyncIterator[StageEvent]):
    """One watcher's own queue; it ends only when its owner lets go of it."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[StageEvent] = asyncio.Queue(EVENTS_WAITING_MAX)

    def show(self, event: StageEvent) -> None:
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(event)

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> StageEvent:
        return await self._waiting.get()


class Audience:
    """Hands each event to every watcher; one that is no longer referenced is forgotten."""

    def __init__(self) -> None:
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()

    def watch(self) -> Watcher:
        watcher = Watcher()
        self._watchers.add(watcher)
        return watcher

    def show(self, event: StageEvent) -> None:
        for watcher in list(self._watchers):
            watcher.show(event)
