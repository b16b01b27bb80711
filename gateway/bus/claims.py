"""Claims over many shards: where work may be is asked first, from a random one on, so that none starves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.bus.bell import Bell
from gateway.bus.outages import Outages
from gateway.bus.shard import Shard
from gateway.contracts.errors import BusError
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Claim, ClaimBatch
from gateway.limits import SHARD_PATIENCE_S


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for, whichever shard it comes from."""

    worker: str
    messages_max: int
    attempts_max: int


class Claims:
    """The claiming of one role. `bell` rings for the wake tokens."""

    def __init__(self, shards: Sequence[Shard], bell: Bell, outages: Outages) -> None:
        self._shards = shards
        self._bell = bell
        self._outages = outages
        self._due_at_s: dict[int, float] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._late_dead: list[InboundMessage] = []

    async def claim(self, wish: Wish, lanes_max: int) -> ClaimBatch:
        """Up to `lanes_max` lanes, in as few rounds as there are shards with much to do.

        A round asks as many shards at once as lanes are wanted, each for its share; who gave all it was
        asked for is asked again.
        """
        hungry = self._outages.present(self._bell.take() | self._due())
        random.shuffle(hungry)
        claims: list[Claim] = []
        dead, self._late_dead = self._late_dead, []
        while hungry and len(claims) < lanes_max:
            wanted = lanes_max - len(claims)
            asked, hungry = hungry[:wanted], hungry[wanted:]
            share = wanted // len(asked)
            for shard, batch in (await self._ask(asked, wish, share)).items():
                claims += batch.claims
                dead += batch.dead
                if len(batch.claims) == share:
                    hungry.append(shard)
        self._bell.put_back(hungry)
        return ClaimBatch(tuple(claims), self._next_due_s(), tuple(dead))

    async def close(self) -> None:
        """Claims that are still on their way arrive and are handed back."""
        if self._late:
            await asyncio.wait(self._late)

    async def _ask(self, shards: Sequence[int], wish: Wish, share: int) -> dict[int, ClaimBatch]:
        """The batches of those that answer soon. A claim is never cancelled: its lanes would be nobody's."""
        asking = {shard: asyncio.create_task(self._claim(shard, wish, share)) for shard in shards}
        try:
            await asyncio.wait(asking.values(), timeout=SHARD_PATIENCE_S)
        except asyncio.CancelledError:
            for shard, task in asking.items():
                self._hand_back_later(shard, task)
            raise
        batches: dict[int, ClaimBatch] = {}
        for shard, task in asking.items():
            if not task.done():
                self._outages.note(shard)
                self._hand_back_later(shard, task)
            elif (batch := task.result()) is not None:
                batches[shard] = batch
        return batches

    async def _claim(self, shard: int, wish: Wish, share: int) -> ClaimBatch | None:
        room = self._shards[shard]
        try:
            # The token goes first: whoever claims takes it, and the claim leaves another if lanes are left.
            _, batch = await asyncio.gather(
                room.line.call("LPOP", room.keys.wake),
                room.lanes.claim(
                    wish.worker,
                    lanes_max=share,
                    messages_max=wish.messages_max,
                    attempts_max=wish.attempts_max,
                ),
            )
        except BusError:
            self._outages.note(shard)
            return None
        self._due_at_s.pop(shard, None)
        if batch.next_due_s is not None:
            self._due_at_s[shard] = asyncio.get_running_loop().time() + batch.next_due_s
        return batch

    def _hand_back_later(self, shard: int, claiming: asyncio.Task[ClaimBatch | None]) -> None:
        task = asyncio.create_task(self._hand_back(shard, claiming))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _hand_back(self, shard: int, claiming: asyncio.Task[ClaimBatch | None]) -> None:
        batch = await claiming
        if batch is None:
            return
        self._late_dead += batch.dead
        for claim in batch.claims:
            try:
                await self._shards[shard].lanes.restart(claim)
            except BusError:  # the lease ends by itself
                return

    def _due(self) -> set[int]:
        now = asyncio.get_running_loop().time()
        return {shard for shard, at_s in self._due_at_s.items() if at_s <= now}

    def _next_due_s(self) -> float | None:
        if not self._due_at_s:
            return None
        return max(0.0, min(self._due_at_s.values()) - asyncio.get_running_loop().time())
