"""Ends sub-agents because of what their person said: /stop, /new, /undo, /forget. Whichever process runs them kills
them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent.limits import STOP_LOOK_S, STOP_SUBAGENTS_S
from gateway.contracts.entries import Session
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, SubTaskBook
from gateway.retry import retry_until_available


class Ending:
    """Asks for the end of sub-agents; what is over after that wakes nobody."""

    def __init__(self, book: SubTaskBook, clock: Clock) -> None:
        self._book = book
        self._clock = clock

    async def ask(self, key: SessionKey) -> int:
        """All that work for `key` are to end, and nobody waits for them any more. How many there are. To be repeated
        until none is left, it does no harm."""
        return await retry_until_available(lambda: self._book.want_cancelled(key))

    async def end(self, key: SessionKey) -> int:
        """The same; returns when nothing of them runs any more, or a moment later."""
        live = await self.ask(key)
        await self._until_gone(live, lambda: self.ask(key))
        return live

    async def end_all(self, keys: Sequence[SessionKey]) -> None:
        """The same for several lanes at once."""

        async def ask() -> int:
            return sum([await self.ask(key) for key in keys])

        await self._until_gone(await ask(), ask)

    async def ended_since(self, key: SessionKey, since_ms: int) -> int:
        """How many were ended since then, with those that are about to: also those that went with their turn before
        anybody could ask."""
        return await retry_until_available(lambda: self._book.count_ended(key, since_ms=since_ms))

    async def end_since(self, session: Session, since_ms: int) -> int:
        """Those that were started in this conversation since then: what they were started for is taken back. How many
        of them, and of those below them, were live."""
        tasks = await self._book.tasks_of_session(session.id)
        ids = [task.id for task in tasks if task.created_at_ms >= since_ms]
        if not ids:
            return 0
        live = await self._book.want_cancelled(session.key, task_ids=ids)
        await self._until_gone(live, lambda: self._book.want_cancelled(session.key, task_ids=ids))
        await self._book.collect(ids)
        return live

    async def _until_gone(self, live: int, ask: Callable[[], Awaitable[int]]) -> None:
        until_s = self._clock.monotonic_s() + STOP_SUBAGENTS_S
        while live and self._clock.monotonic_s() < until_s:
            await asyncio.sleep(STOP_LOOK_S)
            live = await ask()
