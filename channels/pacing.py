"""Staying under a platform's limits: token buckets that all processes share through Redis.

The rates are rows in each platform's own `limits.py`; here is only the waiting. Answers wait for their
tokens. What may be left out (typing indicators) spends only what answers leave over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from channels.adapter import Budget, ChannelAdapter
from gateway.contracts.ports import DeliveryBus

SPARE_SHARE: Final = 0.5  # of a bucket that stays with the answers


class Pacer:
    """Waits for the buckets of one account. Raises `BusUnavailable`."""

    def __init__(self, bus: DeliveryBus, adapter: ChannelAdapter, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._bus = bus
        self._adapter = adapter
        self._sleep = sleep

    async def wait(self, budgets: Sequence[Budget]) -> None:
        """Spend one token of each bucket, narrowest first, waiting as long as they say."""
        for budget in budgets:
            while (wait_s := await self._take(budget, spare=0)) > 0:
                await self._sleep(wait_s)

    async def may_spend(self, budgets: Sequence[Budget]) -> bool:
        """Spend one token of each bucket if more than enough are left; False: leave it out, nobody will miss it."""
        for budget in budgets:
            if await self._take(budget, spare=budget.burst * SPARE_SHARE) > 0:
                return False
        return True

    async def spend(self, budgets: Sequence[Budget]) -> float:
        """Spend one token of each bucket, the narrowest last; or how long to wait first."""
        for budget in budgets:
            if (wait_s := await self._take(budget, spare=0)) > 0:
                return wait_s
        return 0.0

    async def pause(self, budgets: Sequence[Budget], *, for_s: float) -> None:
        """The platform said how long everybody who writes to this place has to wait."""
        if budgets:
            await self._bus.pause_bucket(self._name(budgets[0]), for_s=for_s)

    async def _take(self, budget: Budget, *, spare: float) -> float:
        return await self._bus.take_send_token(self._name(budget), per_s=budget.per_s, burst=budget.burst, spare=spare)

    def _name(self, budget: Budget) -> str:
        return f"{self._adapter.account}:{budget.bucket}"
