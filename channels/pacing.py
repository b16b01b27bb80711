"""Staying under a platform's limits: token buckets that all processes share through Redis.

The rates are rows in each platform's own `limits.py`; here is only the waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from channels.adapter import Budget
from gateway.contracts.ports import DeliveryBus


class Pacer:
    """Waits for the buckets of one channel. Raises `BusUnavailable`."""

    def __init__(self, bus: DeliveryBus, channel: str, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._bus = bus
        self._channel = channel
        self._sleep = sleep

    async def wait(self, budgets: Sequence[Budget]) -> None:
        """Spend one token of each bucket, narrowest first, waiting as long as they say."""
        for budget in budgets:
            while (wait_s := await self._take(budget)) > 0:
                await self._sleep(wait_s)

    async def pause(self, budgets: Sequence[Budget], *, for_s: float) -> None:
        """The platform said how long everybody who writes to this place has to wait."""
        if budgets:
            await self._bus.pause_bucket(self._name(budgets[0]), for_s=for_s)

    async def _take(self, budget: Budget) -> float:
        return await self._bus.take_send_token(self._name(budget), per_s=budget.per_s, burst=budget.burst)

    def _name(self, budget: Budget) -> str:
        return f"{self._channel}:{budget.bucket}"
