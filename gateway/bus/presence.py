"""Which consumers of a channel's replies are there, and which will not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.processes import ProcessName
from gateway.bus.scripts import script
from gateway.contracts.errors import BusError

_ANNOUNCEMENTS: Final = 5  # within one takeover time, so that some may be late


class Presence:
    """Keeps one consumer present while its process lives, and judges the others.

    A consumer is gone when its process is known to be dead, when it is an earlier name of ours, or when
    it was absent while we were present without a break for `takeover_s`: after an outage of Redis
    everybody is absent for a moment, and that must not look like a death.
    """

    def __init__(
        self,
        line: Line,
        keys: ShardKeys,
        process: ProcessName,
        channel: str,
        consumer: str,
        *,
        takeover_s: float,
    ) -> None:
        self._line = line
        self._takeover_s = takeover_s
        self._key = keys.consumers(channel)
        self._process = process
        self._consumer = consumer
        self._task: asyncio.Task[None] | None = None
        self._present: frozenset[str] = frozenset()
        self._announced_at = float("-inf")
        self._unbroken_since = float("inf")

    async def begin(self) -> None:
        """Announce ourselves now and from now on."""
        await self._announce()
        self._task = asyncio.create_task(self._keep_announcing(), name="bus-presence")

    async def end(self) -> None:
        """Leave: what we hold may be taken over at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        try:
            await self._line.call("ZREM", self._key, self._consumer)
        except BusError:  # Redis is away: our lease ends by itself
            return

    async def gone(self, consumers: Sequence[str]) -> Sequence[str]:
        """Those of `consumers` that will not come back."""
        unbroken_s = asyncio.get_running_loop().time() - self._unbroken_since
        is_fit_to_judge = unbroken_s >= self._takeover_s
        return [
            name
            for name in consumers
            if self._process.is_mine(name)
            or self._process.knows_dead(name)
            or (is_fit_to_judge and name not in self._present)
        ]

    async def _keep_announcing(self) -> None:
        while True:
            await asyncio.sleep(self._takeover_s / _ANNOUNCEMENTS)
            try:
                await self._announce()
            except BusError:  # the next round tries again; a gap is noticed by its length
                continue

    async def _announce(self) -> None:
        present = await self._line.run(
            script("announce"),
            (self._key,),
            (self._consumer, int(self._takeover_s * 1000)),
        )
        now = asyncio.get_running_loop().time()
        if now - self._announced_at >= self._takeover_s:
            self._unbroken_since = now
        self._announced_at = now
        self._present = frozenset(name.decode() for name in present)
