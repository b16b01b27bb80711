"""What every contestant does: put jobs of many keys in, take them out, do both at once. Standard library only."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

PRODUCERS: Final = 64
SLOTS: Final = 256
"""Jobs that a worker may have at once."""
RACE_TIMEOUT_S: Final = 20.0


class Tally:
    """Counts jobs as they start, and those that start behind a later one of their key."""

    def __init__(self, jobs: int) -> None:
        self.disorder = 0
        self._missing = jobs
        self._newest: dict[int, int] = {}
        self._filled = asyncio.Event()

    def start(self, key: int, number: int) -> None:
        """Job `number` of `key` starts now; its numbers were put in counting up."""
        if number < self._newest.get(key, -1):
            self.disorder += 1
        else:
            self._newest[key] = number

    def end(self) -> None:
        """One job is done."""
        self._missing -= 1
        if self.is_full:
            self._filled.set()

    @property
    def is_full(self) -> bool:
        """Whether every job is done."""
        return self._missing <= 0

    async def until_full(self) -> None:
        """Wait until every job is done. Raises `TimeoutError`."""
        async with asyncio.timeout(RACE_TIMEOUT_S):
            await self._filled.wait()


class Contestant(Protocol):
    """A queue with a worker."""

    async def put(self, key: int, number: int) -> None:
        """Enqueue one job of `key`; it is in when this returns."""
        ...

    def working(self, tally: Tally) -> AbstractAsyncContextManager[object]:
        """A worker that does jobs, each in `tally`, while the block lasts."""
        ...


Open = Callable[[str], AbstractAsyncContextManager[Contestant]]


def run(open_contestant: Open) -> None:
    """The whole program of a contestant: prints its rates, per second, and its disorder as one line of JSON."""
    url, jobs, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        import uvloop  # noqa: PLC0415 - as fast as each of them can be, where the platform has it
    except ImportError:
        found = asyncio.run(_race(open_contestant, url, jobs, keys))
    else:
        found = uvloop.run(_race(open_contestant, url, jobs, keys))
    sys.stdout.write(json.dumps(found) + "\n")


async def _race(open_contestant: Open, url: str, jobs: int, keys: int) -> dict[str, float]:
    async with open_contestant(url) as contestant:
        filled_s = await timed(fill(contestant, range(jobs), keys))
        tally = Tally(jobs)
        drained_s = await timed(drain(contestant, tally))
        both = Tally(jobs)
        async with contestant.working(both):
            both_s = await timed(fill(contestant, range(jobs, 2 * jobs), keys), both.until_full())
    return {
        "enqueue": jobs / filled_s,
        "drain": jobs / drained_s,
        "end_to_end": jobs / both_s,
        "disorder": tally.disorder + both.disorder,
    }


async def drain(contestant: Contestant, tally: Tally) -> None:
    """A worker from its start to the last job."""
    async with contestant.working(tally):
        await tally.until_full()


async def fill(contestant: Contestant, numbers: Iterable[int], keys: int) -> None:
    """Many producers at once, each with keys of its own: a key's jobs go in one after the other."""
    mine: list[list[int]] = [[] for _ in range(PRODUCERS)]
    for number in numbers:
        mine[number % keys % PRODUCERS].append(number)

    async def produce(numbers: Iterable[int]) -> None:
        for number in numbers:
            await contestant.put(number % keys, number)

    await asyncio.gather(*map(produce, mine))


async def timed(*work: Awaitable[object]) -> float:
    """The seconds that all of it takes together."""
    began_s = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - began_s


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something that runs until it is cancelled, for as long as the block; its failure is the block's."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()
