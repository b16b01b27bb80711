"""Listening on pub/sub channels for as long as somebody listens. What is said meanwhile to nobody is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError, TimeoutError

from gateway.bus.pool import Pool, honest
from gateway.limits import COMMAND_TIMEOUT_S

_LISTEN_S: Final = 1.0  # how long one look at the socket may block
_PAUSE_S: Final = 0.2  # between attempts to subscribe again


class Heard(NamedTuple):
    """One message, and where it was said."""

    channel: str
    data: bytes


async def messages(pool: Pool, *channels: str) -> AsyncIterator[Heard]:
    """Every message of the channels; subscribes again by itself after Redis was away. Ends when closed."""
    async with aclosing(hear(pool, *channels)) as everything:
        async for heard in everything:
            if heard is not None:
                yield heard


async def hear(pool: Pool, *channels: str) -> AsyncGenerator[Heard | None, None]:
    """The same, with a None whenever we begin to listen: what was said before it may have been missed."""
    while True:
        try:
            subscription = await pool.subscription()
        except (RedisError, OSError):
            await _look_elsewhere(pool)
            continue
        try:
            await honest(subscription.subscribe(*channels))
            yield None
            async with aclosing(_listen(subscription)) as listening:
                async for heard in listening:
                    yield heard
        except (RedisError, OSError):
            await _look_elsewhere(pool)
        finally:
            await subscription.aclose()  # type: ignore[no-untyped-call]


async def _listen(subscription: PubSub) -> AsyncGenerator[Heard, None]:
    """Until the connection breaks. A server that hangs is noticed by a PING that it leaves unanswered."""
    loop = asyncio.get_running_loop()
    heard_at, is_asked = loop.time(), False
    while True:
        message: dict[str, Any] | None = await honest(subscription.get_message(timeout=_LISTEN_S))
        now = loop.time()
        if message is not None:
            heard_at, is_asked = now, False
            if message["type"] == "message":
                yield Heard(message["channel"].decode(), message["data"])
        elif now - heard_at > 2 * COMMAND_TIMEOUT_S:
            raise TimeoutError("nothing was heard, not even an answer")
        elif now - heard_at > COMMAND_TIMEOUT_S and not is_asked:
            is_asked = True
            await honest(subscription.ping())


async def _look_elsewhere(pool: Pool) -> None:
    await asyncio.sleep(_PAUSE_S)
    await pool.lost()
