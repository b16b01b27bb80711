"""Sees to it that intake judges by what operators decided, and that the bus says whose it is, whatever it has lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gateway.contracts.errors import BusError, StoreError
from gateway.doorkeeper import Doorkeeper
from gateway.limits import PROJECTION_LOOK_S

_log = structlog.get_logger(__name__)


async def showing_access(keeper: Doorkeeper, keep_named: Callable[[], Awaitable[None]]) -> None:
    """Until cancelled: whoever changes something shows it himself, so this is for what went wrong. Raises `ConfigError`
    when the bus belongs to another installation by now."""
    while True:
        try:
            await keep_named()
            await keeper.keep_projected()
        except (BusError, StoreError) as error:
            _log.warning("access.not_shown", reason=str(error))
        await asyncio.sleep(PROJECTION_LOOK_S)
