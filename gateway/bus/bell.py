"""What rings when something may wait in a shard.

On one server a reader blocks on the key itself. No command of a Cluster blocks on keys of several hash
slots, and a blocked connection for each of them is a high price for an idle process: here the scripts
say by pub/sub that a key got something, and one subscription hears it for all shards. A message that
nobody heard costs `BELL_SAFETY_S`, for every so often every shard is looked at anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.pool import Pool
from gateway.bus.subscriptions import hear
from gateway.limits import BELL_SAFETY_S

_NEVER: Final = float("-inf")


class Bell:
    """One kind of key over all shards, for one reader. `news` are the pub/sub channels of these keys, by shard."""

    def __init__(self, pool: Pool, news: Sequence[str]) -> None:
        self._pool = pool
        self._shards = {channel: shard for shard, channel in enumerate(news)}
        self._rung: set[int] = set()
        self._stirred = asyncio.Event()
        self._looked_at_all_s = _NEVER
        self._hearing: asyncio.Task[None] | None = None

    async def wait(self, timeout_s: float) -> None:
        """Return when a shard has rung or all are to be looked at, at the latest after `timeout_s`."""
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear(), name="bus-bell")
        now = asyncio.get_running_loop().time()
        wait_s = min(timeout_s, self._looked_at_all_s + BELL_SAFETY_S - now)
        try:
            async with asyncio.timeout(max(0.0, wait_s)):
                await self._stirred.wait()
        except TimeoutError:
            return

    def take(self) -> set[int]:
        """The shards that rang since the last call; every so often all of them."""
        now = asyncio.get_running_loop().time()
        self._stirred.clear()
        rung, self._rung = self._rung, set()
        if now - self._looked_at_all_s >= BELL_SAFETY_S:
            self._looked_at_all_s = now
            return set(self._shards.values())
        return rung

    def put_back(self, shards: Iterable[int]) -> None:
        """There may be more in these: they ring again at once."""
        self._rung.update(shards)
        if self._rung:
            self._stirred.set()

    def ring_all(self) -> None:
        """Every shard is to be looked at."""
        self.put_back(self._shards.values())

    async def close(self) -> None:
        """Listen no more."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})
            self._hearing = None

    async def _hear(self) -> None:
        async with aclosing(hear(self._pool, *self._shards)) as everything:
            async for heard in everything:
                if heard is None:
                    self.ring_all()
                else:
                    self.put_back([self._shards[heard.channel]])


class Bells:
    """Makes the bells of one role and takes them down together."""

    def __init__(self, pool: Pool, names: InstallationNames, shards: int) -> None:
        self._pool = pool
        self._names = names
        self._keys = [ShardKeys(number) for number in range(shards)]
        self._hung: list[Bell] = []

    def hang(self, key_of: Callable[[ShardKeys], str]) -> Bell:
        """A bell for the key that `key_of` names in each shard."""
        bell = Bell(self._pool, [self._names.news(key_of(keys)) for keys in self._keys])
        self._hung.append(bell)
        return bell

    async def close(self) -> None:
        """Listen no more."""
        for bell in self._hung:
            await bell.close()
