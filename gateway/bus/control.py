"""The side door of the agent role: control commands and receipts, each to one worker, never behind work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from gateway.bus.groups import GroupReader, StreamEntry
from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.line import Line
from gateway.bus.outbound import reply_arguments
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.bus.wire import bounded
from gateway.contracts.envelope import decode
from gateway.contracts.errors import BadEnvelope, BusUnavailable, NewerEnvelope
from gateway.contracts.messages import ControlRequest, InboundMessage, Receipt, Reply

CONTROL_BATCH: Final = 16
CONTROL_WAIT_S: Final = 1.0  # also how often a dead worker's commands are looked for
_PAUSE_S: Final = 0.2

T = TypeVar("T", ControlRequest, Receipt)


class ControlLane:
    """Two streams with one consumer per worker; what a dead worker left goes to the living."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys, names: InstallationNames) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys
        self._names = names
        self._commands: dict[str, GroupReader] = {}
        self._receipts: dict[str, GroupReader] = {}

    async def requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        """Control commands for `worker`, with the receipt to acknowledge them by.

        Waits by itself while Redis is away. A command that was handed out and not finished is handed out
        again when the worker asks anew.
        """
        self.ask_anew(worker)
        while True:
            try:
                for receipt, request in await self.commands(worker, count=CONTROL_BATCH, wait_s=CONTROL_WAIT_S):
                    yield receipt, request
            except BusUnavailable:
                await asyncio.sleep(_PAUSE_S)

    def ask_anew(self, worker: str) -> None:
        """What the worker was handed and has not finished is handed out again."""
        self._commands[worker] = self._reader(self._keys.control, worker)

    async def commands(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, ControlRequest]]:
        """Some control commands, each to one worker until it is finished."""
        reader = self._commands.get(worker)
        if reader is None:
            reader = self._commands[worker] = self._reader(self._keys.control, worker)
        return await _understood(reader, self._command, count=count, wait_s=wait_s)

    async def finish(self, receipt: str, reply: Reply) -> None:
        """Publish the answer and acknowledge the command, atomically."""
        channel, identity, envelope = reply_arguments(reply)
        await self._line.run(
            script("finish_control"),
            (self._keys.control, self._keys.outbound(reply.address.channel), self._keys.outbound_channels),
            (self._names.agents, receipt, channel, self._keys.published(""), identity, envelope, self._names.news("")),
        )
        for reader in self._commands.values():
            reader.finished(receipt)

    async def finish_press(self, receipt: str, press: InboundMessage, answer: Reply) -> None:
        """Hand the answer to whoever waits for it at the channel and acknowledge the press, atomically."""
        await self._line.run(
            script("finish_press"),
            (self._keys.control, self._keys.told(press.id)),
            (self._names.agents, receipt, bounded(answer)),
        )
        for reader in self._commands.values():
            reader.finished(receipt)

    async def receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        """Ends of deliveries, each to one worker until it is finished."""
        reader = self._receipts.get(worker)
        if reader is None:
            reader = self._receipts[worker] = self._reader(self._keys.receipts, worker)
        return await _understood(reader, self._receipt, count=count, wait_s=wait_s)

    async def finish_receipts(self, ids: Sequence[str]) -> None:
        """The receipts are in SQL."""
        if not ids:
            return
        await self._line.run(script("drop_entries"), (self._keys.receipts,), (self._names.agents, *ids))
        for reader in self._receipts.values():
            for entry_id in ids:
                reader.finished(entry_id)

    async def _command(self, reader: GroupReader, entry: StreamEntry) -> ControlRequest | None:
        try:
            request = decode(entry.fields[b"e"])
            if not isinstance(request, ControlRequest):
                raise BadEnvelope(f"expected a control request, found {type(request).__name__}")
        except NewerEnvelope:  # it stays pending: when we have gone a newer worker adopts it
            return None
        except BadEnvelope as error:
            await self._bury(reader, self._keys.control, entry, error)
            return None
        return replace(
            request,
            dropped=int(entry.fields[b"dropped"]),
            was_running=entry.fields[b"running"] == b"1",
            stopped_fence=int(entry.fields.get(b"fence", 0)),
        )

    async def _receipt(self, reader: GroupReader, entry: StreamEntry) -> Receipt | None:
        try:
            receipt = decode(entry.fields[b"e"])
            if not isinstance(receipt, Receipt):
                raise BadEnvelope(f"expected a receipt, found {type(receipt).__name__}")
        except NewerEnvelope:  # likewise
            return None
        except BadEnvelope as error:
            await self._bury(reader, self._keys.receipts, entry, error)
            return None
        return receipt

    async def _bury(self, reader: GroupReader, stream: str, entry: StreamEntry, error: BadEnvelope) -> None:
        await self._line.run(
            script("bury_entry"),
            (stream, self._keys.dead_letters),
            (self._names.agents, entry.id, entry.fields[b"e"], str(error)),
        )
        reader.finished(entry.id)

    def _reader(self, stream: str, worker: str) -> GroupReader:
        return GroupReader(
            self._line,
            self._pool,
            stream=stream,
            group=self._names.agents,
            consumer=worker,
            left_behind=self._dead_workers,
        )

    async def _dead_workers(self, consumers: Sequence[str]) -> Sequence[str]:
        """Consumers without a lease: whoever is reaped or drained is gone for good under that name."""
        alive = {name.decode() for name in await self._line.call("ZRANGE", self._keys.workers, 0, -1)}
        return [name for name in consumers if name not in alive]


async def _understood(
    reader: GroupReader,
    understand: Callable[[GroupReader, StreamEntry], Awaitable[T | None]],
    *,
    count: int,
    wait_s: float,
) -> Sequence[tuple[str, T]]:
    """The next entries as what they mean, without those that nobody can read."""
    entries = await reader.read(count=count, wait_s=wait_s)
    found: list[tuple[str, T]] = []
    try:
        for entry in entries:
            meaning = await understand(reader, entry)
            if meaning is not None:
                found.append((entry.id, meaning))
    except BaseException:  # cancelled, or Redis went away over an unreadable one
        reader.put_back(entries)
        raise
    return found
