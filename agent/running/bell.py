"""Wakes a loop that sleeps between two looks at the database, where this process knows better."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes a loop of this process when there is something for it to do."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Look again now."""
        self._rung.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when it rings, at the latest after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()
