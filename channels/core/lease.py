"""A named lease: work that only one process may do at a time, such as listening with one bot token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusUnavailable
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)

SOMEBODY_ELSE: Final = "another process listens with this token"
BUS_AWAY: Final = "waiting for the bus"
STOP_WITHIN_S: Final = 2.0  # what the work may need to stop before somebody else may begin


class LeaseValidity:
    """The time for which a lease surely holds, by our own clock: a process that was suspended sees after it wakes
    whether it still does."""

    def __init__(self) -> None:
        self.until_s = float("-inf")

    @property
    def is_sure(self) -> bool:
        """Tell whether nobody else can have the lease."""
        return _now_s() < self.until_s


async def while_holding(
    bus: Deliveries,
    name: str,
    holder: str,
    work: Callable[[], Awaitable[None]],
    *,
    waiting: Callable[[str], None],
    ttl_s: float = POLLER_LEASE_TTL_S,
    validity: LeaseValidity | None = None,
) -> None:
    """Run `work` while we hold the lease `name`; stop it when the lease is lost, and wait for it again.

    Returns when `work` returns, raises what it raises. `waiting` is called with the reason why we do not work. A
    process that cannot reach the bus cannot know whether it still has the lease, so `work` is stopped shortly before
    the lease ends. `ttl_s` is how long after our death another process takes over; `validity` is told how long no
    other can."""
    lease = _Lease(bus, name, holder, ttl_s, validity or LeaseValidity())
    try:
        while True:
            while not await lease.take():
                waiting(lease.obstacle)
                await asyncio.sleep(lease.renew_every_s)
            if await _run_until_lost(lease, work):
                return
            log.warning("lost the lease %s: %s", name, lease.obstacle)
            waiting(lease.obstacle)
    finally:
        await lease.give_back()


async def _run_until_lost(lease: _Lease, work: Callable[[], Awaitable[None]]) -> bool:
    running = asyncio.ensure_future(work())
    try:
        while True:
            done, _ = await asyncio.wait((running,), timeout=lease.next_renewal_s)
            if done:
                await running
                return True
            if not await lease.take() and (lease.is_taken or not lease.is_safe):
                return False
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class _Lease:
    """One lease as we know it, by our own clock: it ends at the latest `ttl_s` after we last asked for it."""

    def __init__(self, bus: Deliveries, name: str, holder: str, ttl_s: float, validity: LeaseValidity) -> None:
        self._bus = bus
        self._validity = validity
        self._name = name
        self._holder = holder
        self._ttl_s = ttl_s
        self._end_s = 0.0
        self.renew_every_s = ttl_s / 4  # two renewals may fail before it is in danger
        self.is_taken = False
        """Somebody else has it."""

    @property
    def obstacle(self) -> str:
        return SOMEBODY_ELSE if self.is_taken else BUS_AWAY

    @property
    def is_safe(self) -> bool:
        """Tell whether the lease is surely ours and leaves time to stop before it ends."""
        return self._left_s > 0

    @property
    def next_renewal_s(self) -> float:
        return max(0.0, min(self.renew_every_s, self._left_s))

    @property
    def _left_s(self) -> float:
        return self._end_s - min(STOP_WITHIN_S, self._ttl_s / 4) - _now_s()

    async def take(self) -> bool:
        """Take or renew it. While it is ours, no longer than it is safe."""
        asked_s = _now_s()
        try:
            async with asyncio.timeout(self._left_s if self.is_safe else None):
                is_ours = await self._bus.hold(self._name, self._holder, ttl_s=self._ttl_s)
        except (BusUnavailable, TimeoutError) as error:
            log.warning("the lease %s cannot be renewed now: %s", self._name, error)
            self.is_taken = False
            return False
        self.is_taken = not is_ours
        if is_ours:
            self._end_s = self._validity.until_s = asked_s + self._ttl_s
        return is_ours

    async def give_back(self) -> None:
        self._validity.until_s = float("-inf")
        try:
            await self._bus.release(self._name, self._holder)
        except BusUnavailable:
            log.debug("the lease %s runs out by itself", self._name)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
