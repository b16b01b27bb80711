"""Shards whose server does not answer: whoever goes from shard to shard leaves them out until it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.contracts.errors import BusError, BusUnavailable
from gateway.limits import SHARD_PATIENCE_S

_PROBE_EVERY_S: Final = 0.5


class Outages:
    """The shards of one role that are away. One probe per shard asks until it is back."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._probes: dict[int, asyncio.Task[None]] = {}

    def present(self, shards: set[int]) -> list[int]:
        """Those of `shards` that are worth asking. Raises `BusUnavailable` when every shard is away."""
        if len(self._probes) == len(self._lines):
            raise BusUnavailable("no server of the Cluster answers")
        return [shard for shard in shards if shard not in self._probes]

    @asynccontextmanager
    async def patience(self, shard: int) -> AsyncIterator[None]:
        """A block that asks one shard: cut short and marked as away when it does not answer soon.

        Every call of the bus may be cut short: what it took is given again by the next call.
        """
        try:
            async with asyncio.timeout(SHARD_PATIENCE_S):
                yield
        except (TimeoutError, BusUnavailable):
            self.note(shard)

    async def close(self) -> None:
        """Ask no more."""
        for probe in self._probes.values():
            probe.cancel()
        if self._probes:
            await asyncio.wait(self._probes.values())
        self._probes.clear()

    def note(self, shard: int) -> None:
        """The shard did not answer."""
        if shard not in self._probes:
            self._probes[shard] = asyncio.create_task(self._probe(shard), name=f"bus-probe-{shard}")

    async def _probe(self, shard: int) -> None:
        while True:
            try:
                await self._lines[shard].call("EXISTS", ShardKeys(shard).total)
            except BusError:
                await asyncio.sleep(_PROBE_EVERY_S)
            else:
                del self._probes[shard]
                return
