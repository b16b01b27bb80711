"""saq: `python -m tests.bench.contest.saq_job URL JOBS KEYS`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from saq import Worker
from saq.queue.redis import RedisQueue

from tests.bench.contest import race

NOT_KEPT: Final = -1


class Saq:
    """One queue and one worker; results are not kept."""

    def __init__(self, queue: RedisQueue) -> None:
        self._queue = queue
        self._tally = race.Tally(0)

    async def _do(self, _: Any, *, lane: int, number: int) -> None:
        self._tally.start(lane, number)
        self._tally.end()

    async def put(self, key: int, number: int) -> None:
        await self._queue.enqueue("job", lane=key, number=number, ttl=NOT_KEPT)

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        self._tally = tally
        worker = Worker(self._queue, [("job", self._do)], concurrency=race.SLOTS)
        async with race.in_background(worker.start()):
            yield
            await worker.stop()


@asynccontextmanager
async def open_saq(url: str) -> AsyncIterator[Saq]:
    queue = RedisQueue(Redis.from_url(url), max_concurrent_ops=race.SLOTS)
    await queue.connect()
    try:
        yield Saq(queue)
    finally:
        await queue.disconnect()


if __name__ == "__main__":
    race.run(open_saq)
