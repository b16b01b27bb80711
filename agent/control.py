"""The control lane: /stop and /status are answered here, however busy the worker is."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from agent.sentences import status_text, stopped_sentence
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.messages import ControlKind, ControlRequest, Reply, ReplyKind
from gateway.contracts.ports import Clock, LaneBus, LaneDepth, Scrubber, Store

_log = structlog.get_logger(__name__)
_RETRY_S: Final = 0.5


class ControlLane:
    """Answers control commands. The stop itself happened on the bus, in the step that took the command."""

    def __init__(
        self, worker_id: str, bus: LaneBus, lanes: LaneDepth, store: Store, scrubber: Scrubber, clock: Clock
    ) -> None:
        self._id = worker_id
        self._bus = bus
        self._lanes = lanes
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async for receipt, request in self._bus.control_requests(self._id):
                    await self._answer(receipt, request)
            except (BusError, StoreError) as error:
                _log.warning("control.failed", reason=str(error))
            await asyncio.sleep(_RETRY_S)

    async def _answer(self, receipt: str, request: ControlRequest) -> None:
        message = request.message
        reply = Reply(
            id=f"control:{message.id}",
            turn_id=f"control:{message.id}",
            key=message.key,
            address=message.address,
            text=self._scrubber.scrub(await self._text(request)),
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
        )
        await self._store.put_outbox([reply])
        await self._bus.finish_control(receipt, reply)

    async def _text(self, request: ControlRequest) -> str:
        if request.kind is ControlKind.STOP:
            return stopped_sentence(was_running=request.was_running, dropped=request.dropped)
        key = request.message.key
        waiting, is_running = await self._lanes.lane_depth(key)
        return status_text(await self._store.current_session(key), waiting=waiting, is_running=is_running)
