"""Waiting for what has no event for us: another process, a client library, the other end of a wire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

PATIENCE_S: Final = 60.0  # for a machine that is busy with other things, too
POLL_S: Final = 0.01


async def comes_true(is_true: Callable[[], object], *, within_s: float) -> bool:
    """Wait for a condition; False when it does not come in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not is_true():  # noqa: ASYNC110 - it happens in code that has no event for us
                await asyncio.sleep(POLL_S)
            return True
    return False


async def until(is_true: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait for a condition; AssertionError with `what()` when it does not come."""
    if not await comes_true(is_true, within_s=PATIENCE_S):
        raise AssertionError(f"it did not happen within {PATIENCE_S:g} s: {what()}")


async def until_found(look: Callable[[], Awaitable[object]]) -> None:
    """Wait until a look into a database finds something; TimeoutError when it does not come."""
    async with asyncio.timeout(PATIENCE_S):
        while not await look():  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)
