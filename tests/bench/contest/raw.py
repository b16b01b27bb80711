"""The raw commands of the server: XADD, XREADGROUP and XACK of one stream, without keys, leases or fences.

python -m tests.bench.contest.raw URL JOBS KEYS pooled | pipelined | line
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from redis.asyncio import BlockingConnectionPool, Redis

from gateway.bus.client import NodeClients, NodeResolver, PipelinedConnection
from gateway.bus.server import Server, close_client
from tests.bench.contest import race

STREAM: Final = "contest"
GROUP: Final = "contest"
PAYLOAD: Final = b"x" * 200
EMPTY_PAUSE_S: Final = 0.001
"""A read that blocks would hold up a shared connection, and one that never pauses the producers."""
_BATCH_MAX: Final = 512

Call: TypeAlias = Callable[..., Awaitable[Any]]


class Raw:
    """One stream with one group; every command goes through `call`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def put(self, key: int, number: int) -> None:
        await self._call("XADD", STREAM, "*", "key", key, "number", number, "text", PAYLOAD)

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as readers:
            for _ in range(race.PRODUCERS):
                readers.create_task(self._work(tally))
            yield

    async def _work(self, tally: race.Tally) -> None:
        while not tally.is_full:  # not until cancelled: redis-py may lose a cancellation
            found = await self._call("XREADGROUP", "GROUP", GROUP, GROUP, "COUNT", 1, "STREAMS", STREAM, ">")
            if not found:
                await asyncio.sleep(EMPTY_PAUSE_S)
                continue
            for entry_id, fields in found[0][1]:
                tally.start(int(fields[b"key"]), int(fields[b"number"]))
                await self._call("XACK", STREAM, GROUP, entry_id)
                tally.end()


class Pipelines:
    """redis-py's own pipeline over one connection: what has gathered goes out in one write, nothing is repeated."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def call(self, *command: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
            pipeline = self._client.pipeline(transaction=False)
            for command, _ in batch:
                pipeline.execute_command(*command)
            for (_, answer), found in zip(batch, await pipeline.execute(), strict=True):
                if not answer.done():
                    answer.set_result(found)
        self._writer = None


@asynccontextmanager
async def open_raw(url: str) -> AsyncIterator[Raw]:
    server = Server.at(url)
    match sys.argv[-1]:
        case "line":
            line = PipelinedConnection(NodeResolver(NodeClients(server.line_client)), server.where)
            call, close = line.call, line.close
        case "pipelined":
            client = server.line_client()
            call, close = Pipelines(client).call, lambda: close_client(client)
        case _:
            pool = BlockingConnectionPool.from_url(url, max_connections=race.PRODUCERS, timeout=None, protocol=2)
            client = Redis.from_pool(pool)
            call, close = client.execute_command, lambda: close_client(client)
    await call("XGROUP CREATE", STREAM, GROUP, "0", "MKSTREAM")
    try:
        yield Raw(call)
    finally:
        await close()


if __name__ == "__main__":
    race.run(open_raw)
