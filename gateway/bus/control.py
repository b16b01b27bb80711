"""Control commands, each to one worker, never after work; what a dead worker left goes to the living."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from gateway.bus.deliveries import GroupReader, StreamEntry
from gateway.bus.scripts import digest
from gateway.bus.shards import Shards, bounded
from gateway.contracts.envelope import decode
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.messages import ControlRequest, InboundMessage, Reply
from gateway.retry import RetryPolicy, retry_until_available

_BATCH: Final = 16
_WAIT_S: Final = 1.0  # also how often a dead worker's commands are looked for
_POLICY: Final = RetryPolicy(pauses_s=(0.2,))


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
    request = decode(entry.fields[b"e"])
    if not isinstance(request, ControlRequest):
        raise BadEnvelope(f"expected a control request, found {type(request).__name__}")
    return replace(
        request,
        dropped=int(entry.fields[b"dropped"]),
        was_running=entry.fields[b"running"] == b"1",
        stopped_fence=int(entry.fields.get(b"fence", 0)),
    )
