"""Waits between two tries, calls that are made until they are answered or that end when they are cancelled, and a
memory that does not grow."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from gateway.contracts.errors import BusUnavailable, StoreUnavailable

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")


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


# What may not be left half done while bus or store are away.


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time for which a call is repeated, and the pauses between its tries: each lasts between half and all of its
    size, so that many callers do not come back at once; the last is that of all further tries.

    A server that restarts is back within a second; one that fails over needs half a minute."""

    for_s: float = math.inf
    pauses_s: tuple[float, ...] = (0.1, 0.3, 1.0, 2.0)

    def pause_s(self, attempt: int) -> float:
        """Return how long to wait after the try number `attempt`, counted from 0."""
        return jittered(self.pauses_s[min(attempt, len(self.pauses_s) - 1)])


FOR_EVER: Final = RetryPolicy()


async def retry_until_available(
    call: Callable[[], Awaitable[_T]],
    policy: RetryPolicy = FOR_EVER,
    *,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _T:
    """Return the answer of `call`, made again for as long as bus or store are away; so it must bear repetition.

    Ends only with an answer, another error, what `wait` raises, or the cancellation of whoever waits; raises
    `BusUnavailable` or `StoreUnavailable` when the call has failed for as long as the policy says."""
    attempt, give_up_at = 0, time.monotonic() + policy.for_s
    while True:
        try:
            return await call()
        except (BusUnavailable, StoreUnavailable) as error:
            pause_s = policy.pause_s(attempt)
            if time.monotonic() + pause_s > give_up_at:
                raise
            attempt += 1
            _log.warning("away.retry", attempt=attempt, reason=str(error))
        await wait(pause_s)


_NOTICED_WITHIN_S: Final = 0.02  # a cancellation that is not forgotten ends a call at once


async def cancel_reliably(call: Awaitable[_T]) -> _T:
    """Await a call into a library without losing a cancellation.

    redis-py and the platforms' SDKs wait by `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that
    arrives in the moment when the waiting ends: a process told to stop would go on. So the call has a task of its own,
    which is cancelled until it has noticed."""
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
