"""Inbound messages, control commands and intake positions: what the channels role writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from gateway.bus.deliveries import GroupReader, StreamEntry
from gateway.bus.keys import lane_handle
from gateway.bus.scripts import digest
from gateway.bus.shards import Shards, bounded
from gateway.contracts.access import Rate, ShownAccess
from gateway.contracts.envelope import decode_as, inbound_prefix
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, ControlRequest, InboundMessage, Reply
from gateway.contracts.ports import Admission, Amendment, Position, Verdict
from gateway.tasks import RetryPolicy, retry_until_available

_VERDICTS: Final = {
    1: Verdict.ACCEPTED,
    0: Verdict.DUPLICATE,
    -1: Verdict.LANE_FULL,
    -2: Verdict.QUEUE_FULL,
    -3: Verdict.TOO_FAST,
    -4: Verdict.STALE,
}
_ON_THE_BUS: Final = (1, 0)
_AMENDMENTS: Final = {1: Amendment.CHANGED, 2: Amendment.RESTARTED, 0: Amendment.TOO_LATE}
_RESTARTED: Final = "restarted:"
"""In front of a message id: the digest by which the dedupe sets know that a change restarted its turn."""


class Inbound:
    """The channels role's way to hand on what people say. Raises `BusUnavailable`.

    One connection, one order: calls from one task reach Redis in the order they were made."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._carried: dict[str, str] = {}  # positions that came along with a message, until they are to be kept

    async def enqueue(
        self,
        message: InboundMessage,
        *,
        settle_ms: int = 0,
        interrupts: bool = False,
        rate: Rate = Rate(),  # noqa: B008 - frozen
        judged_by: ShownAccess | None = None,
        position: Position | None = None,
        met: Sequence[bytes] = (),
    ) -> Admission:
        """Deduplicate by `message.id` and append to its lane: both or neither.

        With `settle_ms` an idle lane waits that long for more; each further fragment renews the wait,
        up to SETTLE_MAX_S. With `interrupts` an accepted message cancels the running turn of its lane (RESTART), in the
        same step. With a `rate`, its author is not taken more from, in the same step: what comes again counts once.
        A message that was judged by a projection which its shard shows no more is STALE, in the same step; that of
        another shard says nothing here. A `position` that is true once the message is on the bus is kept in the same
        step, if its shard is the message's: `set_position` has nothing left to do then. The rows of what was `met` in
        its lane are kept likewise, for other processes.

        A message whose answer was lost with a connection is sent again by itself and
        may then be reported as a duplicate of itself: it is on the bus either way. What an author may still send
        lies with the lane: one who writes into places of their own lanes on a Cluster has some for each shard."""
        shard = self._shards.of(message.key)
        mark = judged_by.mark if judged_by is not None and judged_by.shard == shard.number else b""
        carried = position if position and self._shards.named(position.name) is shard else Position("", "")
        enqueue = shard.call(
            "enqueue",
            (shard.keys.access,),
            (
                *(lane_handle(message.key), bounded(message), shard.keys.seen(""), digest(message.id)),
                *(settle_ms, int(interrupts), shard.caps.lane_messages_max, shard.caps.queue_messages_max),
                *(shard.keys.rate(str(message.author) if rate.per_minute else ""), rate.per_minute, rate.burst),
                mark,
                *(shard.keys.positions, carried.name, carried.value),
                *shard.met_arguments(message.key, met),
            ),
        )
        verdict, queued, running, wait_ms = await shard.intake.run_script(enqueue)
        if verdict in _ON_THE_BUS and carried.value:
            self._carried[carried.name] = carried.value
        return Admission(_VERDICTS[verdict], queued=queued, is_running=running == 1, wait_s=wait_ms / 1000)

    async def met(self, key: SessionKey) -> Sequence[bytes]:
        """Return the rows of what any process has found in a lane."""
        shard = self._shards.of(key)
        found: Sequence[bytes] = await shard.intake.call("ZRANGE", shard.keys.met(str(key)), 0, -1)
        return found

    async def amend(self, message: InboundMessage, *, met: Sequence[bytes] = ()) -> Amendment:
        """Put an edited message in the place of the one with its id.

        Whether it waits, settles or backs off, it keeps its place, its time and its failed runs. A turn that is
        answering it is restarted, once per message."""
        shard, envelope, identity = self._shards.of(message.key), bounded(message), inbound_prefix(message.id)
        amend = shard.call(
            "amend",
            arguments=(
                *(lane_handle(message.key), identity, envelope),
                *(shard.keys.seen(""), digest(_RESTARTED + message.id)),
                *shard.met_arguments(message.key, met),
            ),
        )
        return _AMENDMENTS[await shard.intake.run_script(amend)]

    async def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        """Take a deleted message off its lane; a lane whose failing head it was starts afresh, and a turn that
        is answering it is restarted without it."""
        shard = self._shards.of(key)
        withdraw = shard.call("withdraw", arguments=(lane_handle(key), inbound_prefix(message_id)))
        return _AMENDMENTS[await shard.intake.run_script(withdraw)]

    async def request_control(
        self,
        request: ControlRequest,
        *,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        """Put a control command on the control lane: accepted, a duplicate message id, or too fast for its author.

        STOP also cancels the running turn and drops what waits in the lane, in the same atomic step. The
        messages of that turn are marked: a worker that claims them after a death or a revoke does not run them. It is
        taken at any rate where it finds what to stop, and some of what a person may give is kept for it."""
        message, shard = request.message, self._shards.of(request.message.key)
        asking = shard.call(
            "request_control",
            (shard.keys.control,),
            (
                *(lane_handle(message.key), bounded(request), shard.keys.seen(""), digest(message.id)),
                int(request.kind is ControlKind.STOP),
                *(shard.keys.pace(str(message.author) if rate.per_minute else ""), rate.per_minute, rate.burst),
            ),
        )
        verdict, wait_ms = await shard.intake.run_script(asking)
        return Admission(_VERDICTS[verdict], wait_s=wait_ms / 1000)

    async def position(self, name: str) -> str | None:
        """Return an intake position (Telegram offset, last message of a place), None before it was set."""
        shard = self._shards.named(name)
        answer = await shard.intake.call("HGET", shard.keys.positions, name)
        return None if answer is None else answer.decode()

    async def set_position(self, name: str, value: str) -> None:
        """Keep an intake position, unless the last message has brought this very one along."""
        if self._carried.pop(name, None) == value:
            return
        shard = self._shards.named(name)
        await shard.intake.call("HSET", shard.keys.positions, name, value)


# Control commands, each to one worker, never after work; what a dead worker left goes to the living.


_BATCH: Final = 16
_WAIT_S: Final = 1.0  # also how often a dead worker's commands are looked for
_POLICY: Final = RetryPolicy(first_s=0.2, cap_s=0.2)


class Control:
    """The control commands of all lanes, read by one consumer per worker. Raises `BusUnavailable`."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._readers: dict[str, GroupReader[ControlRequest]] = {}

    async def requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        """Yield control commands for `worker`, with the receipt to acknowledge them by.

        It waits by itself while Redis is away. A command that was handed out and not finished is handed out
        again when the worker asks anew."""
        reader = self._readers.get(worker)
        if reader is None:
            reader = self._readers[worker] = GroupReader(
                self._shards,
                lambda keys: keys.control,
                group=self._shards.names.agents,
                consumer=worker,
                understand=_command,
            )
        else:
            reader.put_back_all()
        while True:
            found = await retry_until_available(lambda: reader.read(count=_BATCH, wait_s=_WAIT_S), _POLICY)
            for shard, entry_id, request in found:
                yield self._shards.sign(shard, entry_id), request

    async def finish(self, receipt: str, reply: Reply) -> None:
        """Publish the answer and acknowledge the command, atomically."""
        shard, entry_id = self._shards.signed(receipt)
        channel, keys, names = reply.address.channel, shard.keys, self._shards.names
        await shard.run_script(
            "finish_control",
            (keys.control, keys.outbound(channel), keys.outbound_channels),
            (names.agents, entry_id, channel, keys.published(""), digest(reply.id), bounded(reply), names.news("")),
        )
        for reader in self._readers.values():
            reader.finished(shard, entry_id)

    async def finish_press(self, receipt: str, press: InboundMessage, answer: Reply) -> None:
        """Hand the answer to the one who pressed a button (`Questions.told`) and acknowledge the press, atomically."""
        shard, entry_id = self._shards.signed(receipt)
        await shard.run_script(
            "finish_press",
            (shard.keys.control, shard.keys.told(press.id)),
            (self._shards.names.agents, entry_id, bounded(answer)),
        )
        for reader in self._readers.values():
            reader.finished(shard, entry_id)


def _command(entry: StreamEntry) -> ControlRequest:
    return replace(
        decode_as(ControlRequest, entry.fields[b"e"]),
        dropped=int(entry.fields[b"dropped"]),
        was_running=entry.fields[b"running"] == b"1",
        stopped_fence=int(entry.fields.get(b"fence", 0)),
    )
