"""Connections for what may block or needs one of its own: waits, stream reads, transactions, subscriptions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar

from redis.asyncio.client import PubSub
from redis.exceptions import ClusterDownError, ConnectionError, MovedError, ReadOnlyError, RedisError

from gateway.bus.connection import translated
from gateway.bus.line import Command, Word
from gateway.bus.way import Way

T = TypeVar("T")
_NOTICED_WITHIN_S: Final = 0.02  # a cancellation that is not forgotten ends a call at once
_ELSEWHERE: Final = (MovedError, ConnectionError, ReadOnlyError, ClusterDownError, OSError)
"""Errors after which another server may have taken over."""


async def honest(call: Awaitable[T]) -> T:
    """Await a call into redis-py without losing a cancellation.

    It sends through `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that arrives in
    the moment the sending ends: a process told to stop would go on and block in its next read. So the call has a
    task of its own, which is cancelled until it has noticed.
    """
    calling = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        while not calling.done():
            calling.cancel()
            await asyncio.wait({calling}, timeout=_NOTICED_WITHIN_S)
        if not calling.cancelled():
            calling.exception()  # looked at, or asyncio would complain that nobody did
        raise


class Pool:
    """Each call takes a connection, so calls may overtake each other. Nothing is repeated by itself."""

    def __init__(self, way: Way, where: str) -> None:
        self._way = way
        self._where = where

    async def call(self, *command: Word) -> Any:
        """Send one command that may block; its answer. Raises what `connection.translated` says."""
        try:
            client = await self._way.client()
            return await honest(client.execute_command(*command))  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise await self._understood(error) from error

    async def transaction(self, commands: Sequence[Command]) -> None:
        """Several commands of which others see all or nothing."""
        try:
            transaction = (await self._way.client()).pipeline(transaction=True)
            for command in commands:
                transaction.execute_command(*command)
            await honest(transaction.execute())
        except (RedisError, OSError) as error:
            raise await self._understood(error) from error

    async def subscription(self) -> PubSub:
        """A connection for pub/sub; its errors are those of redis."""
        return (await self._way.client()).pubsub()

    async def lost(self) -> None:
        """The server does not serve us any more: the next call goes to whoever does."""
        with contextlib.suppress(RedisError, OSError):  # nobody is there to tell who: asked again before the next call
            await self._way.lost()

    async def close(self) -> None:
        """Hang up."""
        await self._way.close()

    async def _understood(self, error: RedisError | OSError) -> Exception:
        if isinstance(error, _ELSEWHERE):
            await self.lost()
        return translated(error, self._where)
