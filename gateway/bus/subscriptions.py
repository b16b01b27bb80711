"""Listening on pub/sub channels for as long as somebody listens. What is said meanwhile to nobody is lost.

On one server a reader blocks on the key that it waits for. No command of a Cluster blocks on keys of several hash
slots, and a blocked connection for each of them is a high price for an idle process: there the scripts say by pub/sub
that a key got something, and one subscription hears it for all shards. A message that nobody heard costs
`BELL_SAFETY_S`, for every so often every shard is looked at anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from gateway.bus.client import Pool
from gateway.limits import BELL_SAFETY_S, COMMAND_TIMEOUT_S
from gateway.tasks import cancel_reliably

_NEVER: Final = float("-inf")
_PAUSE_S: Final = 0.2  # between attempts to subscribe again


class Heard(NamedTuple):
    """One message, and where it was said."""

    channel: str
    data: bytes


async def messages(pool: Pool, *channels: str) -> AsyncIterator[Heard]:
    """Yield every message of the channels; subscribes again by itself after Redis was away. Ends when closed."""
    async with aclosing(hear(pool, *channels)) as everything:
        async for heard in everything:
            if heard is not None:
                yield heard


async def hear(pool: Pool, *channels: str) -> AsyncGenerator[Heard | None, None]:
    """Yield the same, with a None whenever we begin to listen: what was said before it may have been missed."""
    while True:
        try:
            subscription = await pool.subscription()
        except (RedisError, OSError):
            await _look_elsewhere(pool)
            continue
        try:
            await cancel_reliably(subscription.subscribe(*channels))
            yield None
            async with aclosing(_listen(subscription)) as listening:
                async for heard in listening:
                    yield heard
        except (RedisError, OSError):
            await _look_elsewhere(pool)
        finally:
            await subscription.aclose()  # type: ignore[no-untyped-call]


async def _listen(subscription: PubSub) -> AsyncGenerator[Heard, None]:
    """Yield messages until the connection breaks. A server that hangs leaves a PING unanswered."""
    is_asked = False
    while True:
        message: dict[str, Any] | None = await cancel_reliably(subscription.get_message(timeout=COMMAND_TIMEOUT_S))
        if message is not None:
            is_asked = False
            if message["type"] == "message":
                yield Heard(message["channel"].decode(), message["data"])
        elif is_asked:
            raise RedisTimeout("nothing was heard, not even an answer")
        else:
            is_asked = True
            await cancel_reliably(subscription.ping())


async def _look_elsewhere(pool: Pool) -> None:
    await asyncio.sleep(_PAUSE_S)
    await pool.look_again()


class WakeupSubscription:
    """Hears which shards got something in one kind of key, for one reader. `news` are the pub/sub channels of these
    keys, by shard."""

    def __init__(self, pool: Pool, news: Sequence[str]) -> None:
        self._pool = pool
        self._shards = {channel: shard for shard, channel in enumerate(news)}
        self._awake: set[int] = set()
        self._changed = asyncio.Event()
        self._looked_at_all_s = _NEVER
        self._hearing: asyncio.Task[None] | None = None

    async def wait(self, timeout_s: float) -> None:
        """Return when a shard got something or all are to be looked at, at the latest after `timeout_s`."""
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear(), name="bus-wakeups")
        now = asyncio.get_running_loop().time()
        wait_s = min(timeout_s, self._looked_at_all_s + BELL_SAFETY_S - now)
        try:
            async with asyncio.timeout(max(0.0, wait_s)):
                await self._changed.wait()
        except TimeoutError:
            return

    def take(self) -> set[int]:
        """Return the shards that got something since the last call; every so often all of them."""
        now = asyncio.get_running_loop().time()
        self._changed.clear()
        awake, self._awake = self._awake, set()
        if now - self._looked_at_all_s >= BELL_SAFETY_S:
            self._looked_at_all_s = now
            return set(self._shards.values())
        return awake

    def put_back(self, shards: Iterable[int]) -> None:
        """Look at these again at once: there may be more in them."""
        self._awake.update(shards)
        if self._awake:
            self._changed.set()

    def wake_all(self) -> None:
        """Look at every shard."""
        self.put_back(self._shards.values())

    async def close(self) -> None:
        """Stop listening."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})
            self._hearing = None

    async def _hear(self) -> None:
        async with aclosing(hear(self._pool, *self._shards)) as everything:
            async for heard in everything:
                if heard is None:
                    self.wake_all()
                else:
                    self.put_back([self._shards[heard.channel]])
