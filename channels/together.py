"""Running things side by side that stand and fall together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

_NOTICED_WITHIN_S: Final = 0.1  # a cancellation that is not forgotten ends what an SDK does at once


async def first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, or fails and raises; then cancel the others and wait for them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def heedful(work: Coroutine[Any, Any, None]) -> None:
    """Run what an SDK does; cancelled, it ends.

    SDKs wait by `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that arrives in the moment when the
    waiting ends: it is cancelled until it has noticed.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            working.cancel()
            await asyncio.wait({working}, timeout=_NOTICED_WITHIN_S)
        if not working.cancelled():
            working.exception()  # looked at, or asyncio would complain that nobody did
        raise
