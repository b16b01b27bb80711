"""Between the outbox and the channels: publishes again what was lost, writes down what arrived."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Clock, LaneBus, Store
from gateway.limits import RELAY_AFTER_S

_log = structlog.get_logger(__name__)
_SWEEP_EVERY_S: Final = 5.0
_SWEEP_ROWS_MAX: Final = 200
_RECEIPTS_MAX: Final = 200
_RECEIPTS_WAIT_S: Final = 5.0
_RETRY_S: Final = 1.0


class Relay:
    """The sweeper and the receipt writer of one agent process. Both are idempotent, so every process runs them."""

    def __init__(self, worker_id: str, bus: LaneBus, store: Store, clock: Clock) -> None:
        self._id = worker_id
        self._bus = bus
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep_for_ever())
            group.create_task(self._write_receipts_for_ever())

    async def sweep(self) -> int:
        """Publish committed replies that are still `new` after `RELAY_AFTER_S`; how many there were."""
        before_ms = self._clock.now_ms() - int(RELAY_AFTER_S * 1000)
        stale = await self._store.stale_outbox(before_ms=before_ms, limit=_SWEEP_ROWS_MAX)
        if stale:
            await self._bus.republish(stale)
            await self._store.mark_published([reply.id for reply in stale])
            _log.warning("relay.republished", replies=len(stale))
        return len(stale)

    async def write_receipts(self) -> int:
        """Move waiting receipts from the bus to SQL; how many there were."""
        waiting = await self._bus.receipts(self._id, count=_RECEIPTS_MAX, wait_s=_RECEIPTS_WAIT_S)
        if waiting:
            await self._store.record_receipts([receipt for _, receipt in waiting])
            await self._bus.finish_receipts([entry_id for entry_id, _ in waiting])
        return len(waiting)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except (BusError, StoreError) as error:
                _log.warning("relay.sweep_failed", reason=str(error))
            await asyncio.sleep(_SWEEP_EVERY_S)

    async def _write_receipts_for_ever(self) -> None:
        while True:
            try:
                await self.write_receipts()
            except (BusError, StoreError) as error:
                _log.warning("relay.receipts_failed", reason=str(error))
                await asyncio.sleep(_RETRY_S)
