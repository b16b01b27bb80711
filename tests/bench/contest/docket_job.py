"""pydocket: `python -m tests.bench.contest.docket_job URL JOBS KEYS plain | keyed`.

Keyed, a key has one job at a time.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from docket import ConcurrencyLimit, Docket, Worker

from tests.bench.contest import race

SLOTS: Final = 50  # with 256 its worker runs out of the 100 connections of redis-py's pool
CHECK_EVERY: Final = timedelta(milliseconds=1)  # its default of a quarter of a second would measure that
NOT_KEPT: Final = timedelta(0)


class Pydocket:
    """One docket and one worker; results are not kept."""

    def __init__(self, docket: Docket, *, is_keyed: bool) -> None:
        self._docket = docket
        self._tally = race.Tally(0)

        async def job(key: int, number: int) -> None:
            self._tally.start(key, number)
            self._tally.end()

        async def keyed(
            key: int,
            number: int,
            limit: ConcurrencyLimit = ConcurrencyLimit("key", max_concurrent=1),  # noqa: B008 - so it wants it
        ) -> None:
            await job(key, number)

        self._job = keyed if is_keyed else job
        docket.register(self._job)

    async def put(self, key: int, number: int) -> None:
        await self._docket.add(self._job)(key, number)

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        self._tally = tally
        worker = Worker(self._docket, concurrency=SLOTS, minimum_check_interval=CHECK_EVERY)
        async with worker, race.in_background(worker.run_forever()):
            yield


@asynccontextmanager
async def open_docket(url: str) -> AsyncIterator[Pydocket]:
    async with Docket(url=url, execution_ttl=NOT_KEPT) as docket:
        yield Pydocket(docket, is_keyed=sys.argv[-1] == "keyed")


if __name__ == "__main__":
    race.run(open_docket)
