"""Waiting for what other processes do, of which no event tells us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_EVERY_S: Final = 0.01


async def until(holds: Callable[[], Awaitable[bool]], *, within_s: float) -> None:
    """Look again and again. Raises `TimeoutError`."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(LOOK_EVERY_S)
