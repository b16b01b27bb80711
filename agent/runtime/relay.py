"""Between the outbox and the channels: writes down what arrived, publishes again what was lost.

The sweep asks SQL which replies nobody has heard of for a while; the bus skips those it has or whose delivery has
begun. Receipts come first: a reply that was delivered while no agent ran must not look like one that was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from agent.engine import turn_of_reply
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Files
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.messages import DeliveryState, Receipt
from gateway.contracts.ports import Clock, SpanSink
from gateway.limits import RELAY_AFTER_S
from gateway.store import Store
from gateway.telemetry.metrics import DELIVERY_SECONDS, Tally
from gateway.telemetry.spans import delivery_spans

_log = structlog.get_logger(__name__)
_SWEEP_EVERY_S: Final = 5.0
_SWEEP_ROWS_MAX: Final = 200
_RECEIPTS_MAX: Final = 200
_RECEIPTS_WAIT_S: Final = 5.0
_RECEIPTS_GATHERED_S: Final = 0.25  # a sync of the disk each quarter of a second, however many replies arrive in it
_RETRY_S: Final = 1.0


class Relay:
    """The receipt writer and the sweeper of one agent process. Every process runs them: a receipt and a
    stale reply are given to one, and doing it twice changes nothing."""

    def __init__(
        self, worker_id: str, bus: Deliveries, store: Store, clock: Clock, spans: SpanSink, tally: Tally
    ) -> None:
        self._id = worker_id
        self._bus = bus
        self._store = store
        self._clock = clock
        self._spans = spans
        self._tally = tally
        self._unwritten: list[tuple[str, Receipt]] = []
        self._sweep_at_s = clock.monotonic_s()

    async def relay_receipts(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                are_more = await self.write_receipts() == _RECEIPTS_MAX
                if not are_more and self._clock.monotonic_s() >= self._sweep_at_s:
                    self._sweep_at_s = self._clock.monotonic_s() + _SWEEP_EVERY_S
                    await self.sweep()
            except (BusError, StoreError) as error:
                _log.warning("relay.failed", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    async def write_receipts(self) -> int:
        """Move waiting receipts from the bus to SQL, those of a quarter of a second together; how many there were.
        Until SQL has them the bus keeps them for the next process."""
        # The bus gives each out once: those that SQL did not take stay here for the next try.
        if not self._unwritten:
            await self._gather()
        waiting = self._unwritten
        if waiting:
            await self._store.outbox.record_receipts([receipt for _, receipt in waiting])
            await self._bus.finish_receipts([entry_id for entry_id, _ in waiting])
            self._unwritten = []
            self._tell([receipt for _, receipt in waiting])
        return len(waiting)

    async def _gather(self) -> None:
        wait_s = _RECEIPTS_WAIT_S
        while (room := _RECEIPTS_MAX - len(self._unwritten)) > 0:
            found = await self._bus.take_receipts(self._id, count=room, wait_s=wait_s)
            if not found:
                return
            self._unwritten += found
            if wait_s and len(found) < room:
                await asyncio.sleep(_RECEIPTS_GATHERED_S)
            wait_s = 0.0

    def _tell(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            if turn_id := turn_of_reply(receipt.record.reply_id):
                for span in delivery_spans(turn_id, receipt):
                    self._spans.record(span)
                record = receipt.record
                if record.state is DeliveryState.SENT and record.published_at_ms:
                    self._tally.time(DELIVERY_SECONDS, record.updated_at_ms - record.published_at_ms)

    async def sweep(self) -> int:
        """Publish committed replies of which no receipt tells `RELAY_AFTER_S` later; how many there were."""
        stale = await self._store.outbox.take_stale(after_ms=int(RELAY_AFTER_S * 1000), limit=_SWEEP_ROWS_MAX)
        if stale:
            await self._bus.publish(stale)
            _log.warning("relay.swept", replies=len(stale))
        return len(stale)


# Puts the bytes of committed files from SQL on the bus, whenever a channel is about to send one.


_WAIT_S: Final = 5.0


class FileServer:
    """Serves requests for files, one at a time."""

    def __init__(self, files: Files, store: Store) -> None:
        self._files = files
        self._store = store

    async def serve(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                await self.answer_one(wait_s=_WAIT_S)
            except (BusError, StoreError) as error:
                _log.warning("files.not_served", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    async def answer_one(self, *, wait_s: float) -> bool:
        """Answer one wish, if there is one within `wait_s`. What is not kept any more is answered with nothing."""
        wanted = await self._files.wanted_file(wait_s=wait_s)
        if wanted is None:
            return False
        content = await self._store.outbox.file_content(wanted.key, wanted.reply_id, wanted.position)
        await self._files.put_file(wanted, content or b"")
        return True
