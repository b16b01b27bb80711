"""How much of one kind runs at a time in one process, and whose turn it is when more want to.

Of those who wait, the user with the fewest that run is next, so that nobody's crowd holds up another's first; among
equals, and for each user, first come is first served.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import TypeVar

from gateway.contracts.ids import SessionKey

T = TypeVar("T")


class Slots:
    """At most `live_max` at a time, and at most `owner_max` of one owner. For one event loop.

    A slot that is freed is handed over in the same step, so nobody can come in between."""

    def __init__(self, live_max: int, owner_max: int | None = None) -> None:
        self._live_max = live_max
        self._owner_max = live_max if owner_max is None else owner_max
        self._live: Counter[SessionKey] = Counter()
        self._line: deque[tuple[SessionKey, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def held(self, owner: SessionKey) -> AsyncIterator[None]:
        """Hold a slot for as long as the block lasts. Waits for one; cancelling the wait gives up the place in the
        line and loses no slot."""
        await self.enter(owner)
        try:
            yield
        finally:
            self.leave(owner)

    @property
    def live(self) -> int:
        """How many slots are held."""
        return self._live.total()

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return sum(not turn.done() for _, turn in self._line)

    async def enter(self, owner: SessionKey) -> None:
        """Wait for a slot and take it, for what ends elsewhere than it began; `held` is for everything else."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((owner, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)  # admitted and cancelled in one step: the slot goes on to the next
            else:
                self._line.remove((owner, turn))
            raise

    def leave(self, owner: SessionKey) -> None:
        """Free a slot that `enter` took."""
        self._live[owner] -= 1
        self._live = +self._live
        self._admit()

    def _admit(self) -> None:
        while self.live < self._live_max:
            waiting = [
                place  # a cancelled one is about to go
                for place in self._line
                if not place[1].done() and self._live[place[0]] < self._owner_max
            ]
            if not waiting:
                return
            owner, turn = min(waiting, key=lambda place: self._live[place[0]])
            self._line.remove((owner, turn))
            self._live[owner] += 1
            turn.set_result(None)


class Threads:
    """Threads of one purpose, with a share for each owner: what models ask for never fills the ones that attachments
    and sandboxes need. For one event loop."""

    def __init__(self, name: str, live_max: int, owner_max: int) -> None:
        self._slots = Slots(live_max, owner_max)
        self._pool = ThreadPoolExecutor(live_max, thread_name_prefix=name)

    async def run(self, owner: SessionKey, work: Callable[[], T]) -> T:
        """Return what `work` returns, on a thread. Whoever cancels this waits no longer; the slot is free when the
        thread is."""
        await self._slots.enter(owner)
        loop = asyncio.get_running_loop()

        def ended(_done: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a slot any more
                loop.call_soon_threadsafe(self._slots.leave, owner)

        running = self._pool.submit(copy_context().run, work)
        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
