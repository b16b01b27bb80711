"""How many sub-agents one process runs at a time, and whose turn it is when more want to.

Each depth has slots of its own: parents that wait for their children hold none that these need. Of those who wait,
the user with the fewest that run is next, so that nobody's crowd holds up another's first; among equals, and for each
user, first come is first served.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.contracts.ids import SessionKey


class Slots:
    """At most `live_max` at each depth. For one event loop."""

    def __init__(self, live_max: int) -> None:
        self._rooms: defaultdict[int, _Room] = defaultdict(lambda: _Room(live_max))

    @asynccontextmanager
    async def held(self, depth: int, owner: SessionKey) -> AsyncIterator[None]:
        """A slot at `depth`, for as long as the block lasts. Waits for one; cancelling the wait gives up the place in
        the line and loses no slot."""
        room = self._rooms[depth]
        await room.enter(owner)
        try:
            yield
        finally:
            room.leave(owner)

    def live(self, depth: int) -> int:
        """How many slots are held at `depth`."""
        return self._rooms[depth].live.total()

    def waiting(self, depth: int) -> int:
        """How many wait for one."""
        return sum(not turn.done() for _, turn in self._rooms[depth].line)


class _Room:
    """The slots of one depth. A slot that is freed is handed over in the same step, so nobody can come in between."""

    def __init__(self, live_max: int) -> None:
        self._live_max = live_max
        self.live: Counter[SessionKey] = Counter()
        self.line: deque[tuple[SessionKey, asyncio.Future[None]]] = deque()

    async def enter(self, owner: SessionKey) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.line.append((owner, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)  # admitted and cancelled in one step: the slot goes on to the next
            else:
                self.line.remove((owner, turn))
            raise

    def leave(self, owner: SessionKey) -> None:
        self.live[owner] -= 1
        self.live = +self.live
        self._admit()

    def _admit(self) -> None:
        while self.live.total() < self._live_max:
            waiting = [place for place in self.line if not place[1].done()]  # a cancelled one is about to go
            if not waiting:
                return
            owner, turn = min(waiting, key=lambda place: self.live[place[0]])
            self.line.remove((owner, turn))
            self.live[owner] += 1
            turn.set_result(None)
