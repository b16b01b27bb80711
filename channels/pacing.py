"""Staying under a platform's limits: token buckets that all processes share through Redis.

The rates are rows in each platform's own `limits.py`; here is only the waiting. Answers wait for their
tokens. What may be left out (typing indicators) spends only what answers leave over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from channels.adapter import Budget, ChannelAdapter
from gateway.bus.deliveries import Deliveries
from gateway.contracts.ports import TokenWish

SPARE_SHARE: Final = 0.5  # of a bucket that stays with the answers


class Pacer:
    """Waits for the buckets of one account. Raises `BusUnavailable`."""

    def __init__(self, bus: Deliveries, adapter: ChannelAdapter, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._bus = bus
        self._adapter = adapter
        self._sleep = sleep

    async def wait(self, budgets: Sequence[Budget]) -> None:
        """Spend one token of each bucket, waiting until all of them have one."""
        while (wait_s := await self.spend(budgets)) > 0:
            await self._sleep(wait_s)

    async def may_spend(self, budgets: Sequence[Budget]) -> bool:
        """Spend one token of each bucket if more than enough are left; False: leave it out, nobody will miss it."""
        return await self._take(budgets, spare_share=SPARE_SHARE) == 0

    async def spend(self, budgets: Sequence[Budget]) -> float:
        """Spend one token of each bucket; or how long to wait first, and nothing is spent."""
        return await self._take(budgets, spare_share=0)

    async def pause(self, budgets: Sequence[Budget], *, for_s: float) -> None:
        """The platform said how long everybody who writes to this place has to wait."""
        if budgets:
            await self._bus.pause_bucket(self._adapter.account, budgets[0].bucket, for_s=for_s)

    async def _take(self, budgets: Sequence[Budget], *, spare_share: float) -> float:
        wishes = [
            TokenWish(budget.bucket, budget.per_s, budget.burst, spare=budget.burst * spare_share) for budget in budgets
        ]
        return await self._bus.take_send_tokens(self._adapter.account, wishes) if wishes else 0.0
