"""Listening on a pub/sub channel for as long as somebody listens. What is said meanwhile to nobody is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from redis.exceptions import RedisError

from gateway.bus.pool import Pool, honest

_LISTEN_S: Final = 1.0  # how long one look at the socket may block
_PAUSE_S: Final = 0.2  # between attempts to subscribe again


async def messages(pool: Pool, channel: str) -> AsyncIterator[bytes]:
    """Every message of `channel`; subscribes again by itself after Redis was away. Ends when closed."""
    while True:
        subscription = pool.subscription()
        try:
            await honest(subscription.subscribe(channel))
            while True:
                message = await honest(subscription.get_message(timeout=_LISTEN_S))
                if message is not None:
                    yield message["data"]
        except (RedisError, OSError):
            await asyncio.sleep(_PAUSE_S)
        finally:
            await subscription.aclose()  # type: ignore[no-untyped-call]
