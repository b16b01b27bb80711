"""Claims over many shards: they take turns, from a random one on, so that none starves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.bus.bell import Bell
from gateway.bus.outages import Outages
from gateway.bus.placing import Placing
from gateway.bus.shard import Shard
from gateway.contracts.errors import BusError
from gateway.contracts.ports import Claim, ClaimBatch, DeadMessage
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
        self._promising: set[int] = set()  # shards whose token we took
        self._turn = random.randrange(len(shards))
        self._late: set[asyncio.Task[None]] = set()

    async def wait(self, timeout_s: float) -> None:
        """Return when we took the token of a shard, as one server's BLPOP does, at the latest after `timeout_s`.

        All idle workers hear the bell, one gets the token, and only he goes on to claim.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        while loop.time() < give_up_at:
            await self._bell.wait(give_up_at - loop.time())
            rung = self._outages.present(self._bell.take())
            tokens = await asyncio.gather(*[self._take_token(shard) for shard in rung])
            if any(tokens):
                return

    async def claim(self, wish: Wish, lanes_max: int) -> ClaimBatch:
        """Up to `lanes_max` lanes: where a token was is asked first, then the others in turn.

        A round asks as many shards at once as lanes are wanted, each for its share; who gave all it was
        asked for is asked again.
        """
        hungry = self._in_turn()
        claims: list[Claim] = []
        due_s: list[float] = []
        dead: list[DeadMessage] = []
        while hungry and len(claims) < lanes_max:
            wanted = lanes_max - len(claims)
            asked, hungry = hungry[:wanted], hungry[wanted:]
            share = wanted // len(asked)
            for shard, batch in (await self._ask(asked, wish, share)).items():
                claims += batch.claims
                dead += [replace(each, letter_id=Placing.sign(shard, each.letter_id)) for each in batch.dead]
                if batch.next_due_s is not None:
                    due_s.append(batch.next_due_s)
                if batch.claims:
                    self._turn = shard + 1
                if len(batch.claims) == share:
                    hungry.append(shard)
        return ClaimBatch(tuple(claims), min(due_s, default=None), tuple(dead))

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
        try:
            return await self._shards[shard].lanes.claim(
                wish.worker, lanes_max=share, messages_max=wish.messages_max, attempts_max=wish.attempts_max
            )
        except BusError:
            self._outages.note(shard)
            return None

    def _in_turn(self) -> list[int]:
        """The shards that answer: those whose token we took, then the one behind that which gave last, and so on."""
        count = len(self._shards)
        order = self._outages.present(set(range(count)))
        order.sort(key=lambda shard: (shard not in self._promising, (shard - self._turn) % count))
        self._promising.clear()
        return order

    async def _take_token(self, shard: int) -> bool:
        room, token = self._shards[shard], None
        async with self._outages.patience(shard):
            token = await room.line.call("LPOP", room.keys.wake)
        if token is not None:
            self._promising.add(shard)
        return token is not None

    def _hand_back_later(self, shard: int, claiming: asyncio.Task[ClaimBatch | None]) -> None:
        task = asyncio.create_task(self._hand_back(shard, claiming))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _hand_back(self, shard: int, claiming: asyncio.Task[ClaimBatch | None]) -> None:
        batch = await claiming
        if batch is None:
            return
        for claim in batch.claims:
            try:
                await self._shards[shard].lanes.restart(claim)
            except BusError:  # the lease ends by itself
                return
