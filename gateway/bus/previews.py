"""Which messages show answers that are not committed yet: part of the delivery ledger, though no reply exists."""

from __future__ import annotations

from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.bus.wire import bounded
from gateway.contracts.envelope import decode
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.messages import Preview

READ_MAX: Final = 1_000  # of one channel at a time: more than it has lanes that are answered at once


class Previews:
    """Those of one shard. Raises `BusUnavailable`."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def note(self, channel: str, preview: Preview) -> bool:
        """False: the ledger has a row for the reply by now, and whoever wrote it has looked for previews."""
        keys = (self._keys.ledger(preview.reply_id), self._keys.previews(channel))
        return bool(await self._line.run(script("note_preview"), keys, (preview.reply_id, bounded(preview))))

    async def of(self, channel: str, reply_id: str) -> Preview | None:
        """That of one reply."""
        return _read(await self._line.call("HGET", self._keys.previews(channel), reply_id))

    async def all(self, channel: str) -> list[Preview]:
        """Up to READ_MAX of a channel."""
        rows = await self._line.call("HVALS", self._keys.previews(channel))
        return [preview for row in rows[:READ_MAX] if (preview := _read(row)) is not None]

    async def drop(self, channel: str, preview: Preview) -> None:
        """Forget it."""
        await self._line.call("HDEL", self._keys.previews(channel), preview.reply_id)


def _read(row: bytes | None) -> Preview | None:
    """One that a newer release wrote is left to it."""
    try:
        preview = decode(row) if row is not None else None
    except BadEnvelope:
        return None
    return preview if isinstance(preview, Preview) else None
