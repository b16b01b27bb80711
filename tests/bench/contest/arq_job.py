"""arq: `python -m tests.bench.contest.arq_job URL JOBS KEYS`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker, func

from tests.bench.contest import race

POLL_S: Final = 0.005  # its default of half a second would measure that half second


class Arq:
    """One pool and one worker; results are not kept."""

    def __init__(self, pool: ArqRedis) -> None:
        self._pool = pool
        self._tally = race.Tally(0)

    async def _do(self, _: Any, key: int, number: int) -> None:
        self._tally.start(key, number)
        self._tally.end()

    async def put(self, key: int, number: int) -> None:
        await self._pool.enqueue_job("job", key, number)

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        self._tally = tally
        worker = Worker(
            [func(self._do, name="job")],
            redis_pool=self._pool,
            max_jobs=race.SLOTS,
            poll_delay=POLL_S,
            keep_result=0,
            handle_signals=False,
        )
        async with race.in_background(worker.main()):
            yield


@asynccontextmanager
async def open_arq(url: str) -> AsyncIterator[Arq]:
    pool = await create_pool(RedisSettings.from_dsn(url))
    try:
        yield Arq(pool)
    finally:
        await pool.aclose()


if __name__ == "__main__":
    race.run(open_arq)
