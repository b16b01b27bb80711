"""Connections for what may block or needs one of its own: waits, stream reads, transactions, subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from gateway.bus.connection import close_client, translated
from gateway.bus.line import Command, Word

T = TypeVar("T")


async def honest(call: Awaitable[T]) -> T:
    """Await a call into redis-py without losing a cancellation.

    It sends through `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that arrives in
    the moment the sending ends: a worker told to stop would go on and block in its next read.
    """
    task = asyncio.current_task()
    earlier = task.cancelling() if task is not None else 0
    try:
        return await call
    finally:
        if task is not None and task.cancelling() > earlier:
            raise asyncio.CancelledError


class Pool:
    """Each call takes a connection, so calls may overtake each other. Nothing is repeated by itself."""

    def __init__(self, client: Redis, where: str) -> None:
        self._client = client
        self._where = where

    async def call(self, *command: Word) -> Any:
        """Send one command that may block; its answer. Raises what `connection.translated` says."""
        try:
            return await honest(self._client.execute_command(*command))  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise translated(error, self._where) from error

    async def transaction(self, commands: Sequence[Command]) -> None:
        """Several commands of which others see all or nothing."""
        transaction = self._client.pipeline(transaction=True)
        for command in commands:
            transaction.execute_command(*command)
        try:
            await honest(transaction.execute())
        except (RedisError, OSError) as error:
            raise translated(error, self._where) from error

    def subscription(self) -> PubSub:
        """A connection for pub/sub; its errors are those of redis."""
        return self._client.pubsub(ignore_subscribe_messages=True)

    async def close(self) -> None:
        """Hang up."""
        await close_client(self._client)
