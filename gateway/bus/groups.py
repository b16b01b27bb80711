"""Reading streams through a consumer group, so that nothing is lost with the one who read it.

An entry stays pending with its consumer until it is finished. What a dead consumer left behind is
adopted and handed out again; what this process has handed out itself is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gateway.bus.client import Refused
from gateway.bus.keys import ShardKeys
from gateway.bus.scripts import Command
from gateway.bus.shards import Shard, Shards
from gateway.contracts.errors import BadEnvelope, BusUnavailable, NewerEnvelope
from gateway.limits import BUS_WAIT_MAX_S

T = TypeVar("T")
_ADOPT_EVERY_S: Final = 1.0
_ADOPT_BATCH: Final = 500
_GROUP_LOST: Final = ("NOGROUP", "UNBLOCKED")
"""Redis was emptied: before the read, or while it waited."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry: its id and its fields as they lie in Redis."""

    id: str
    fields: Mapping[bytes, bytes]


class GroupReader(Generic[T]):
    """One consumer of one stream in every shard.

    `understand` says what an entry means and raises `BadEnvelope` for one that nobody can read, which goes to the dead
    letters; one that a newer release wrote stays pending for it. Where the consumer `is_sole`, it holds a lease that no
    other has: whatever others hold was left behind, and entries are given in the order of the stream. Else a consumer
    will not come back once its worker has no lease."""

    def __init__(
        self,
        shards: Shards,
        key_of: Callable[[ShardKeys], str],
        *,
        group: str,
        consumer: str,
        understand: Callable[[StreamEntry], T],
        is_sole: bool = False,
    ) -> None:
        self.consumer = consumer
        self._shards = shards
        self._group = group
        self._understand = understand
        self._wakeups = shards.wakeups(key_of)
        self._readers = [_ShardReader(shard, key_of(shard.keys), group, consumer, is_sole=is_sole) for shard in shards]

    async def read(self, *, count: int, wait_s: float) -> Sequence[tuple[Shard, str, T]]:
        """Return up to `count` entries of one shard, each with its own id there: what was left behind first, then new
        ones, waiting `wait_s` at most. The next call goes on with the other shards."""
        return await self._shards.read(self._wakeups, lambda shard, s: self._look(shard, count, s), wait_s=wait_s)

    def put_back_all(self) -> None:
        """Give everything again that is not finished: nobody works on any of it any more."""
        for reader in self._readers:
            reader.put_back_all()
        self._wakeups.wake_all()

    def handed_out(self, shard: Shard) -> int:
        """Count the entries of a shard that were given and are not finished."""
        return len(self._readers[shard.number].handed_out)

    def finished(self, shard: Shard, entry_id: str) -> None:
        """Forget an entry that was acknowledged, or given up."""
        self._readers[shard.number].handed_out.discard(entry_id)

    async def _look(self, shard: Shard, count: int, wait_s: float) -> Sequence[tuple[Shard, str, T]]:
        reader = self._readers[shard.number]
        entries = await reader.read(count=count, wait_s=wait_s)
        found: list[tuple[Shard, str, T]] = []
        try:
            for entry in entries:
                try:
                    found.append((shard, entry.id, self._understand(entry)))
                except NewerEnvelope:  # it stays pending: when we have gone a newer process adopts it
                    continue
                except BadEnvelope as error:
                    arguments = (self._group, entry.id, entry.fields[b"e"], str(error))
                    await shard.run_script("bury_entry", (reader.stream, shard.keys.dead_letters), arguments)
                    reader.handed_out.discard(entry.id)
        except BaseException:  # cancelled, or Redis went away over an unreadable one
            reader.put_back([entry.id for entry in entries])
            raise
        return found


class _ShardReader:
    """One consumer of one stream."""

    def __init__(self, shard: Shard, stream: str, group: str, consumer: str, *, is_sole: bool) -> None:
        self.stream = stream
        self.handed_out: set[str] = set()
        self._shard = shard
        self._group = group
        self._consumer = consumer
        self._is_sole = is_sole
        self._has_group = False
        self._has_backlog = True  # until a look at our own pending entries says otherwise
        self._adopt_at = 0.0

    async def read(self, *, count: int, wait_s: float) -> list[StreamEntry]:
        if not self._has_group:
            await self._make_group()
        await self._adopt()
        if self._has_backlog:
            entries = await self._backlog(count)
            if entries:
                return entries
        return await self._fresh(count, wait_s)

    def put_back(self, entry_ids: Sequence[str]) -> None:
        self.handed_out.difference_update(entry_ids)
        self._has_backlog = True

    def put_back_all(self) -> None:
        self.handed_out.clear()
        self._has_backlog = True

    async def _make_group(self) -> None:
        await self._shard.run_script("make_group", (self.stream,), (self._group,))
        self._has_group = True

    async def _adopt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._adopt_at:
            return
        self._adopt_at = now + _ADOPT_EVERY_S
        try:
            rows = await self._shard.line.call("XINFO CONSUMERS", self.stream, self._group)
        except Refused:  # somebody emptied Redis under us
            await self._make_group()
            return
        others = [name for row in rows if (name := _text(row["name"])) != self._consumer]
        if not others:
            return
        for name in others if self._is_sole else await _dead_workers(self._shard, others):
            arguments = (self._group, name, self._consumer, _ADOPT_BATCH)
            while adopted := int(await self._shard.run_script("adopt", (self.stream,), arguments)):
                self._has_backlog = True
                if adopted < _ADOPT_BATCH:
                    break

    async def _backlog(self, count: int) -> list[StreamEntry]:
        """Entries that are ours but were not handed out by this process, oldest first."""
        room = count + len(self.handed_out)
        entries, _ = await self._read_group("0", room)
        gone = [entry.id for entry in entries if not entry.fields]
        if gone:  # deleted from the stream while pending: nothing is left to do
            await self._shard.run_script("drop_entries", (self.stream,), (self._group, *gone))
        open_entries = [entry for entry in entries if entry.fields and entry.id not in self.handed_out]
        self._has_backlog = len(entries) >= room or len(open_entries) > count
        return self._hand_out(open_entries[:count])

    async def _fresh(self, count: int, wait_s: float) -> list[StreamEntry]:
        """Read new entries. Where order counts, what another consumer holds came before them and is given first: the
        server goes on serving a reader that sleeps, also after we have looked for what it left behind."""
        wait_ms = int(min(wait_s, BUS_WAIT_MAX_S) * 1000)
        entries, are_others = await self._read_group(">", count, *(("BLOCK", wait_ms) if wait_ms > 0 else ()))
        if not entries or not are_others:
            return self._hand_out(entries)
        self._adopt_at = 0.0
        await self._adopt()
        return await self._backlog(count)

    async def _read_group(self, start: str, count: int, *block: str | int) -> tuple[list[StreamEntry], bool]:
        """Return the entries after `start`, and, for a sole consumer, whether others held any at that moment."""
        group = ("GROUP", self._group, self._consumer, "COUNT", count)
        commands: list[Command] = [("XREADGROUP", *group, *block, "STREAMS", self.stream, start)]
        if self._is_sole:
            commands.append(("XPENDING", self.stream, self._group))
        try:
            answer, *pending = await self._shard.pool.call_all(commands)
        except Refused as error:
            if error.code not in _GROUP_LOST:
                raise
            self._has_group = False
            return [], False
        except (asyncio.CancelledError, BusUnavailable):
            self._has_backlog = True  # the server may have given us entries that we never saw
            raise
        holders = {_text(row["name"]) for told in pending for row in told["consumers"]}
        entries = [StreamEntry(_text(row[0]), row[1] or {}) for row in answer[0][1]] if answer else []
        return entries, bool(holders - {self._consumer})

    def _hand_out(self, entries: list[StreamEntry]) -> list[StreamEntry]:
        self.handed_out.update(entry.id for entry in entries)
        return entries


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word


async def _dead_workers(shard: Shard, consumers: Sequence[str]) -> Sequence[str]:
    """Return the consumers without a lease: who is reaped or drained is gone for good under that name."""
    alive = {name.decode() for name in await shard.line.call("ZRANGE", shard.keys.workers, 0, -1)}
    return [name for name in consumers if name not in alive]
