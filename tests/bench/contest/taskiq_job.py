"""taskiq on RedisStreamBroker: `python -m tests.bench.contest.taskiq_job URL JOBS KEYS`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from tests.bench.contest import race


class Taskiq:
    """One broker and one receiver with its usual acknowledgement; results are not kept."""

    def __init__(self, broker: RedisStreamBroker) -> None:
        self._broker = broker
        self._tally = race.Tally(0)

        async def job(key: int, number: int) -> None:
            self._tally.start(key, number)
            self._tally.end()

        self._job = broker.register_task(job, task_name="job")

    async def put(self, key: int, number: int) -> None:
        await self._job.kiq(key, number)

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        self._tally = tally
        finished = asyncio.Event()
        receiver = Receiver(self._broker, max_async_tasks=race.SLOTS, max_prefetch=race.SLOTS, run_startup=False)
        listening = asyncio.create_task(receiver.listen(finished))
        try:
            yield
        finally:
            finished.set()
            await listening


@asynccontextmanager
async def open_taskiq(url: str) -> AsyncIterator[Taskiq]:
    broker = RedisStreamBroker(url, consumer_id="0")
    contestant = Taskiq(broker)
    await broker.startup()
    try:
        yield contestant
    finally:
        await broker.shutdown()


if __name__ == "__main__":
    race.run(open_taskiq)
