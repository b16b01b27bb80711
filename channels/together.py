"""Running things side by side that stand and fall together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


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
