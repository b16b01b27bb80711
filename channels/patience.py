"""Waiting that a stopping process ends: for a retry, for a rate limit, for the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.retry import RetryPolicy, retry_until_available

BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0

_POLICY: Final = RetryPolicy(pauses_s=(BUS_RETRY_FIRST_S, 0.4, 0.8, 1.6, 3.2, BUS_RETRY_CAP_S))
_T = TypeVar("_T")


class Abandoned(Exception):
    """The process is stopping while this reply waits; the stream still has it."""


class Patience:
    """The waits of one channel's deliveries. `scale` shortens back-offs for tests, never what a platform asked for."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self._scale = scale
        self._stopping = asyncio.Event()

    def end(self) -> None:
        """From now on whoever would have to wait gets `Abandoned` instead."""
        self._stopping.set()

    def chosen_s(self, delay_s: float) -> float:
        """How long a wait by our own choice is."""
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
        """Nothing may be sent that the ledger does not know, so wait for the bus as long as it takes."""
        return await retry_until_available(call, _POLICY, wait=self.wait)
