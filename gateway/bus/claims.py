"""Claims over many shards: where work may be is asked first, from a random one on, so that none starves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.bus.agents import AgentBus
from gateway.bus.bell import Bell
from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.outages import Outages
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Claim, ClaimBatch


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for, whichever shard it comes from."""

    worker: str
    messages_max: int
    attempts_max: int


class Claims:
    """The claiming of one role. `bell` rings for the wake token of a shard."""

    def __init__(self, shards: Sequence[AgentBus], lines: Sequence[Line], bell: Bell, outages: Outages) -> None:
        self._shards = shards
        self._lines = lines
        self._bell = bell
        self._outages = outages
        self._due_at_s: dict[int, float] = {}

    async def claim(self, wish: Wish, lanes_max: int) -> ClaimBatch:
        """Up to `lanes_max` lanes, in as few rounds as there are shards with much to do.

        A round asks as many shards at once as lanes are wanted, each for its share; who gave all it was
        asked for is asked again.
        """
        now = asyncio.get_running_loop().time()
        due = {shard for shard, at_s in self._due_at_s.items() if at_s <= now}
        hungry = self._outages.present(self._bell.take() | due)
        random.shuffle(hungry)
        claims: list[Claim] = []
        dead: list[InboundMessage] = []
        while hungry and len(claims) < lanes_max:
            wanted = lanes_max - len(claims)
            asked, hungry = hungry[:wanted], hungry[wanted:]
            share = wanted // len(asked)
            self._bell.put_back(asked)  # for a caller who is cancelled, until they have answered
            batches = await asyncio.gather(*[self._ask(shard, wish, share) for shard in asked])
            for shard, batch in zip(asked, batches, strict=True):
                claims += batch.claims
                dead += batch.dead
                if len(batch.claims) == share:
                    hungry.append(shard)
        self._bell.put_back(hungry)
        return ClaimBatch(tuple(claims), self._next_due_s(), tuple(dead))

    async def _ask(self, shard: int, wish: Wish, lanes_max: int) -> ClaimBatch:
        batch = ClaimBatch((), None)
        async with self._outages.patience(shard):
            # The token goes first: whoever claims takes it, and the claim leaves another if lanes are left.
            _, batch = await asyncio.gather(
                self._lines[shard].call("LPOP", ShardKeys(shard).wake),
                self._shards[shard].claim(
                    wish.worker,
                    lanes_max=lanes_max,
                    messages_max=wish.messages_max,
                    attempts_max=wish.attempts_max,
                ),
            )
        self._due_at_s.pop(shard, None)
        if batch.next_due_s is not None:
            self._due_at_s[shard] = asyncio.get_running_loop().time() + batch.next_due_s
        return batch

    def _next_due_s(self) -> float | None:
        if not self._due_at_s:
            return None
        return max(0.0, min(self._due_at_s.values()) - asyncio.get_running_loop().time())
