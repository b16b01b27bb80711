"""One at a time: work that only the holder of a named lease may do, such as polling with one bot token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.clock import SystemClock
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Clock, DeliveryBus
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)

RENEW_EVERY_S: Final = POLLER_LEASE_TTL_S / 3  # two renewals may fail before somebody else may take over


class Tenure:
    """How long a lease surely lasts, by our own clock: a process that was stopped for a while knows when it wakes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = float("-inf")

    @property
    def is_sure(self) -> bool:
        """True while nobody else can have the lease."""
        return self._clock.monotonic_s() < self._until_s

    def now_s(self) -> float:
        return self._clock.monotonic_s()

    def renewed(self, asked_at_s: float) -> None:
        """The bus granted the lease; it runs from the moment we asked at the earliest."""
        self._until_s = asked_at_s + POLLER_LEASE_TTL_S

    def end(self) -> None:
        """The lease is somebody else's, or nobody's."""
        self._until_s = float("-inf")


async def while_holding(
    bus: DeliveryBus,
    name: str,
    holder: str,
    work: Callable[[], Awaitable[None]],
    *,
    waiting: Callable[[], None],
    tenure: Tenure | None = None,
) -> None:
    """Run `work` while we hold the lease `name`; stop it when the lease is lost, and wait for it again.

    Returns when `work` returns, raises what it raises. `waiting` is told each time somebody else has it.
    While the bus is away a running `work` goes on: whoever else wants the lease cannot get it either. `tenure`
    is told how long nobody else can have it.
    """
    tenure = tenure or Tenure(SystemClock())
    try:
        while True:
            while not await _take(bus, name, holder, tenure, when_away=False):
                waiting()
                await asyncio.sleep(RENEW_EVERY_S)
            if await _run_until_lost(bus, name, holder, work, tenure):
                return
            tenure.end()
            log.warning("lost the lease %s", name)
    finally:
        tenure.end()
        await _give_back(bus, name, holder)


async def _run_until_lost(
    bus: DeliveryBus, name: str, holder: str, work: Callable[[], Awaitable[None]], tenure: Tenure
) -> bool:
    running = asyncio.ensure_future(work())
    try:
        while True:
            done, _ = await asyncio.wait((running,), timeout=RENEW_EVERY_S)
            if done:
                await running
                return True
            if not await _take(bus, name, holder, tenure, when_away=True):
                return False
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _take(bus: DeliveryBus, name: str, holder: str, tenure: Tenure, *, when_away: bool) -> bool:
    asked_at_s = tenure.now_s()
    try:
        is_ours = await bus.hold(name, holder, ttl_s=POLLER_LEASE_TTL_S)
    except BusUnavailable as error:
        log.warning("the lease %s cannot be renewed now: %s", name, error)
        return when_away
    if is_ours:
        tenure.renewed(asked_at_s)
    return is_ours


async def _give_back(bus: DeliveryBus, name: str, holder: str) -> None:
    try:
        await bus.release(name, holder)
    except BusUnavailable:
        log.debug("the lease %s runs out by itself", name)
