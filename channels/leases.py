"""One at a time: work that only the holder of a named lease may do, such as polling with one bot token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import DeliveryBus
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)

RENEW_EVERY_S: Final = POLLER_LEASE_TTL_S / 3  # two renewals may fail before somebody else may take over


async def while_holding(
    bus: DeliveryBus,
    name: str,
    holder: str,
    work: Callable[[], Awaitable[None]],
    *,
    waiting: Callable[[], None],
) -> None:
    """Run `work` while we hold the lease `name`; stop it when the lease is lost, and wait for it again.

    Returns when `work` returns, raises what it raises. `waiting` is told each time somebody else has it.
    While the bus is away a running `work` goes on: whoever else wants the lease cannot get it either.
    """
    try:
        while True:
            while not await _take(bus, name, holder, when_away=False):
                waiting()
                await asyncio.sleep(RENEW_EVERY_S)
            if await _run_until_lost(bus, name, holder, work):
                return
            log.warning("lost the lease %s", name)
    finally:
        await _give_back(bus, name, holder)


async def _run_until_lost(bus: DeliveryBus, name: str, holder: str, work: Callable[[], Awaitable[None]]) -> bool:
    running = asyncio.ensure_future(work())
    try:
        while True:
            done, _ = await asyncio.wait((running,), timeout=RENEW_EVERY_S)
            if done:
                await running
                return True
            if not await _take(bus, name, holder, when_away=True):
                return False
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _take(bus: DeliveryBus, name: str, holder: str, *, when_away: bool) -> bool:
    try:
        return await bus.hold(name, holder, ttl_s=POLLER_LEASE_TTL_S)
    except BusUnavailable as error:
        log.warning("the lease %s cannot be renewed now: %s", name, error)
        return when_away


async def _give_back(bus: DeliveryBus, name: str, holder: str) -> None:
    try:
        await bus.release(name, holder)
    except BusUnavailable:
        log.debug("the lease %s runs out by itself", name)
