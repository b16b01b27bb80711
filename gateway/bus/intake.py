"""Inbound messages, control commands and intake positions: what the channels role writes."""

from __future__ import annotations

from typing import Final

from gateway.bus.keys import ShardKeys, lane_handle
from gateway.bus.line import Line
from gateway.bus.scripts import digest, script
from gateway.bus.wire import bounded
from gateway.contracts.messages import ControlKind, ControlRequest, InboundMessage
from gateway.contracts.ports import Admission, Verdict
from gateway.limits import LANE_MESSAGES_MAX, QUEUE_MESSAGES_MAX

_VERDICTS: Final = {
    1: Verdict.ACCEPTED,
    0: Verdict.DUPLICATE,
    -1: Verdict.LANE_FULL,
    -2: Verdict.QUEUE_FULL,
}


class Intake:
    """`gateway.contracts.ports.IntakeBus` on one ordered line."""

    def __init__(
        self,
        line: Line,
        keys: ShardKeys,
        *,
        lane_messages_max: int = LANE_MESSAGES_MAX,
        queue_messages_max: int = QUEUE_MESSAGES_MAX,
    ) -> None:
        self._line = line
        self._keys = keys
        self._lane_messages_max = lane_messages_max
        self._queue_messages_max = queue_messages_max

    async def enqueue(self, message: InboundMessage, *, settle_ms: int = 0) -> Admission:
        """Deduplicate by `message.id` and append to its lane: both or neither.

        With `settle_ms` an idle lane waits that long for more; each further fragment renews the wait,
        up to SETTLE_MAX_S. A message whose answer was lost with a connection is sent again by itself and
        may then be reported as a duplicate of itself: it is on the bus either way.
        """
        keys, lane = self._keys, str(message.key)
        verdict, queued, running = await self._line.run(
            script("enqueue"),
            (keys.mailbox(lane), keys.ready, keys.delay, keys.own, keys.attempts, keys.total, keys.wake),
            (
                lane,
                lane_handle(message.key),
                bounded(message),
                keys.seen(""),
                digest(message.id),
                settle_ms,
                self._lane_messages_max,
                self._queue_messages_max,
            ),
        )
        return Admission(_VERDICTS[verdict], queued=queued, is_running=running == 1)

    async def request_control(self, request: ControlRequest) -> bool:
        """Put a control command on the control lane; False for a duplicate message id.

        STOP also cancels the running turn and drops what waits in the lane, in the same atomic step.
        """
        keys, key = self._keys, request.message.key
        lane = str(key)
        answer = await self._line.run(
            script("request_control"),
            (keys.mailbox(lane), keys.ready, keys.delay, keys.own, keys.attempts, keys.total, keys.control),
            (
                lane,
                lane_handle(key),
                bounded(request),
                keys.seen(""),
                digest(request.message.id),
                int(request.kind is ControlKind.STOP),
                keys.cancels(""),
                keys.cancel_channel(""),
            ),
        )
        return bool(answer)

    async def position(self, name: str) -> str | None:
        """An intake position kept for ever, None before it was set."""
        answer = await self._line.call("HGET", self._keys.positions, name)
        return None if answer is None else answer.decode()

    async def set_position(self, name: str, value: str) -> None:
        """Keep an intake position."""
        await self._line.call("HSET", self._keys.positions, name, value)
