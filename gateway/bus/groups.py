"""Reading a stream through a consumer group, so that nothing is lost with the one who read it.

An entry stays pending with its consumer until it is finished. What a dead consumer left behind is
adopted and handed out again; what this process has handed out itself is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.bus.connection import Refused
from gateway.bus.line import Line
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.contracts.errors import BusUnavailable
from gateway.limits import BUS_WAIT_MAX_S

_ADOPT_EVERY_S: Final = 1.0
_ADOPT_BATCH: Final = 500
_GROUP_LOST: Final = ("NOGROUP", "UNBLOCKED")
"""Redis was emptied: before the read, or while it waited."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry: its id and its fields as they lie in Redis."""

    id: str
    fields: Mapping[bytes, bytes]


class GroupReader:
    """One consumer of one stream. `left_behind` names, among consumers, those that will not come back."""

    def __init__(
        self,
        line: Line,
        pool: Pool,
        *,
        stream: str,
        group: str,
        consumer: str,
        left_behind: Callable[[Sequence[str]], Awaitable[Sequence[str]]],
    ) -> None:
        self._line = line
        self._pool = pool
        self._stream = stream
        self._group = group
        self._consumer = consumer
        self._left_behind = left_behind
        self._handed_out: set[str] = set()
        self._has_group = False
        self._has_backlog = True  # until a look at our own pending entries says otherwise
        self._adopt_at = 0.0

    async def read(self, *, count: int, wait_s: float) -> list[StreamEntry]:
        """Up to `count` entries: what was left behind first, then new ones, waiting `wait_s` at most."""
        if not self._has_group:
            await self._make_group()
        await self._adopt()
        if self._has_backlog:
            entries = await self._backlog(count)
            if entries:
                return entries
        return await self._fresh(count, wait_s)

    def put_back(self, entries: Sequence[StreamEntry]) -> None:
        """These never reached the caller: the next read gives them again."""
        self._handed_out.difference_update(entry.id for entry in entries)
        self._has_backlog = True

    def put_back_all(self) -> None:
        """Nobody works on anything any more: whatever is not finished is given again."""
        self._handed_out.clear()
        self._has_backlog = True

    def finished(self, entry_id: str) -> None:
        """The entry was acknowledged, or given up."""
        self._handed_out.discard(entry_id)

    async def _make_group(self) -> None:
        await self._line.run(script("make_group"), (self._stream,), (self._group,))
        self._has_group = True

    async def _adopt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._adopt_at:
            return
        self._adopt_at = now + _ADOPT_EVERY_S
        try:
            rows = await self._line.call("XINFO CONSUMERS", self._stream, self._group)
        except Refused:  # somebody emptied Redis under us
            await self._make_group()
            return
        others = [name for row in rows if (name := _text(row["name"])) != self._consumer]
        if not others:
            return
        for name in await self._left_behind(others):
            arguments = (self._group, name, self._consumer, _ADOPT_BATCH)
            while adopted := int(await self._line.run(script("adopt"), (self._stream,), arguments)):
                self._has_backlog = True
                if adopted < _ADOPT_BATCH:
                    break

    async def _backlog(self, count: int) -> list[StreamEntry]:
        """Entries that are ours but were not handed out by this process, oldest first."""
        room = count + len(self._handed_out)
        entries = await self._read_group("0", room)
        gone = [entry.id for entry in entries if not entry.fields]
        if gone:  # deleted from the stream while pending: nothing is left to do
            await self._line.run(script("drop_entries"), (self._stream,), (self._group, *gone))
        open_entries = [entry for entry in entries if entry.fields and entry.id not in self._handed_out]
        self._has_backlog = len(entries) >= room or len(open_entries) > count
        return self._hand_out(open_entries[:count])

    async def _fresh(self, count: int, wait_s: float) -> list[StreamEntry]:
        wait_ms = int(min(wait_s, BUS_WAIT_MAX_S) * 1000)
        return self._hand_out(await self._read_group(">", count, *(("BLOCK", wait_ms) if wait_ms > 0 else ())))

    async def _read_group(self, start: str, count: int, *block: str | int) -> list[StreamEntry]:
        group = ("GROUP", self._group, self._consumer, "COUNT", count)
        try:
            answer: Any = await self._pool.call("XREADGROUP", *group, *block, "STREAMS", self._stream, start)
        except Refused as error:
            if error.code not in _GROUP_LOST:
                raise
            self._has_group = False
            return []
        except (asyncio.CancelledError, BusUnavailable):
            self._has_backlog = True  # the server may have given us entries that we never saw
            raise
        return [StreamEntry(_text(row[0]), row[1] or {}) for row in answer[0][1]] if answer else []

    def _hand_out(self, entries: list[StreamEntry]) -> list[StreamEntry]:
        self._handed_out.update(entry.id for entry in entries)
        return entries


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word
