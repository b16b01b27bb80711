"""Background tasks, waits between two tries, and a memory that does not grow."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from gateway.retry import RetryPolicy, retry_until_available

log = logging.getLogger(__name__)


class Backoff:
    """Delays `first_s`, twice that, … up to `cap_s`, each between half and all of its size."""

    def __init__(self, first_s: float, cap_s: float) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._tries = 0

    @property
    def tries(self) -> int:
        """Count the delays handed out since the last reset."""
        return self._tries

    def reset(self) -> None:
        """Begin anew after a try that went well."""
        self._tries = 0

    def next_s(self) -> float:
        """Return the seconds to wait before the next try."""
        whole_s = min(self._cap_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return jittered(whole_s)


def jittered(delay_s: float) -> float:
    """Return a time between half and all of `delay_s`."""
    return delay_s * (0.5 + 0.5 * random.random())


# Small tasks that nobody waits for, such as the answer to a press: held while they run, their failures logged.

BACKGROUND_TASKS_MAX: Final = 256  # at once; each is a press of a button, and answers within seconds


class AdapterTasks:
    """The tasks of one adapter."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it in the background; when there are too many tasks, not at all."""
        if len(self._tasks) >= BACKGROUND_TASKS_MAX:
            work.close()
            log.warning("%s: too many errands at once, one is left undone", self._name)
            return
        task = asyncio.create_task(self._run(work), name=f"{self._name}-errand")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel what runs."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: nobody waits for it
            log.info("%s: an errand failed: %s", self._name, type(error).__name__)


# Parallel runs: the end of one ends the others.

_NOTICED_WITHIN_S: Final = 0.1  # a cancellation that is not forgotten ends what an SDK does at once


async def first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, or fails and raises; then cancel the others and wait for them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Waits that end when the process stops: for a retry, for a rate limit, for the bus.

BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0

_POLICY: Final = RetryPolicy(pauses_s=(BUS_RETRY_FIRST_S, 0.4, 0.8, 1.6, 3.2, BUS_RETRY_CAP_S))
_T = TypeVar("_T")


class Abandoned(Exception):
    """The process is stopping while this reply waits; the stream still has it."""


class BackoffTimer:
    """The waits of one channel's deliveries. `scale` shortens back-offs for tests, never what a platform asked for."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self._scale = scale
        self._stopping = asyncio.Event()

    def end(self) -> None:
        """Raise `Abandoned` from now on instead of any wait."""
        self._stopping.set()

    def chosen_s(self, delay_s: float) -> float:
        """Scale a wait by our own choice: tests shorten it."""
        return delay_s * self._scale

    async def back_off(self, delay_s: float) -> None:
        """Wait by our own choice."""
        await self.wait(self.chosen_s(delay_s))

    async def wait(self, delay_s: float) -> None:
        """Sleep unless the process stops first."""
        if delay_s <= 0:
            return
        if self._stopping.is_set():
            raise Abandoned
        try:
            async with asyncio.timeout(delay_s):  # wait_for may swallow a cancellation before Python 3.12
                await self._stopping.wait()
        except TimeoutError:
            return
        raise Abandoned

    async def with_bus(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call to the bus and wait for the bus as long as it takes: nothing may be sent that the ledger does not
        know."""
        return await retry_until_available(call, _POLICY, wait=self.wait)


# What a process remembers of people, places and messages: as much as its place says, the newest.

_K = TypeVar("_K")
_V = TypeVar("_V")


class BoundedDict(OrderedDict[_K, _V]):
    """The `most` entries that were set last, the newest at the end: what a process remembers of people and places."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _K, value: _V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
