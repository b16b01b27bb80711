"""Inbound messages, control commands and intake positions: what the channels role writes."""

from __future__ import annotations

from typing import Final

from gateway.bus.keys import ShardKeys, lane_handle
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.line import Line
from gateway.bus.scripts import digest
from gateway.bus.wire import bounded
from gateway.contracts.access import Rate
from gateway.contracts.envelope import inbound_prefix
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, ControlRequest, InboundMessage
from gateway.contracts.ports import Admission, Amendment, Verdict

_VERDICTS: Final = {
    1: Verdict.ACCEPTED,
    0: Verdict.DUPLICATE,
    -1: Verdict.LANE_FULL,
    -2: Verdict.QUEUE_FULL,
    -3: Verdict.TOO_FAST,
}
_AMENDMENTS: Final = {1: Amendment.CHANGED, 2: Amendment.RESTARTED, 0: Amendment.TOO_LATE}
_RESTARTED: Final = "restarted:"
"""In front of a message id: the digest by which the dedupe sets know that a change restarted its turn."""


class Intake:
    """`gateway.contracts.ports.IntakeBus` on one ordered line."""

    def __init__(
        self,
        line: Line,
        keys: ShardKeys,
        scripts: LaneScripts,
        *,
        lane_messages_max: int,
        queue_messages_max: int,
    ) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._lane_messages_max = lane_messages_max
        self._queue_messages_max = queue_messages_max

    async def enqueue(
        self,
        message: InboundMessage,
        *,
        settle_ms: int = 0,
        interrupts: bool = False,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        """Deduplicate by `message.id` and append to its lane: both or neither.

        With `settle_ms` an idle lane waits that long for more; each further fragment renews the wait,
        up to SETTLE_MAX_S. A message whose answer was lost with a connection is sent again by itself and
        may then be reported as a duplicate of itself: it is on the bus either way. What an author may still send
        lies with the lane: one who writes into places of their own lanes on a Cluster has some for each shard.
        """
        verdict, queued, running, wait_ms = await self._scripts.run(
            "enqueue",
            arguments=(
                *(lane_handle(message.key), bounded(message), self._keys.seen(""), digest(message.id)),
                *(settle_ms, int(interrupts), self._lane_messages_max, self._queue_messages_max),
                *(self._keys.rate(str(message.author) if rate.per_minute else ""), rate.per_minute, rate.burst),
            ),
        )
        return Admission(_VERDICTS[verdict], queued=queued, is_running=running == 1, wait_s=wait_ms / 1000)

    async def amend(self, message: InboundMessage) -> Amendment:
        """Put an edited message in the place of the one with its id.

        Whether it waits, settles or backs off, it keeps its place, its time and its failed runs.
        """
        envelope, identity = bounded(message), inbound_prefix(message.id)
        answer = await self._scripts.run(
            "amend",
            arguments=(
                *(lane_handle(message.key), identity, envelope),
                *(self._keys.seen(""), digest(_RESTARTED + message.id)),
            ),
        )
        return _AMENDMENTS[answer]

    async def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        """Take a deleted message off its lane; a lane whose failing head it was starts afresh."""
        answer = await self._scripts.run("withdraw", arguments=(lane_handle(key), inbound_prefix(message_id)))
        return _AMENDMENTS[answer]

    async def request_control(
        self,
        request: ControlRequest,
        *,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        """Put a control command on the control lane: accepted, a duplicate message id, or too fast for its author.

        STOP also cancels the running turn and drops what waits in the lane, in the same atomic step. The
        messages of that turn are marked: whoever claims them after a death or a revoke does not run them. It is taken
        at any rate where it finds what to stop, and some of what a person may give is kept for it.
        """
        message = request.message
        verdict, wait_ms = await self._scripts.run(
            "request_control",
            (self._keys.control,),
            (
                *(lane_handle(message.key), bounded(request), self._keys.seen(""), digest(message.id)),
                int(request.kind is ControlKind.STOP),
                *(self._keys.pace(str(message.author) if rate.per_minute else ""), rate.per_minute, rate.burst),
            ),
        )
        return Admission(_VERDICTS[verdict], wait_s=wait_ms / 1000)

    async def position(self, name: str) -> str | None:
        """An intake position kept for ever, None before it was set."""
        answer = await self._line.call("HGET", self._keys.positions, name)
        return None if answer is None else answer.decode()

    async def set_position(self, name: str, value: str) -> None:
        """Keep an intake position."""
        await self._line.call("HSET", self._keys.positions, name, value)
