"""Files that people sent, on their way from the channel that fetches them to the turn that needs them.

The mirror of `lending`: here the agent asks and a channel lends. A file goes in pieces, and no more than
ATTACHMENT_PIECES_AHEAD of them lie on the bus: the next one follows when one was taken. Whoever fetches says
every second that it is still at it, so that a process that was killed is noticed and the file asked for again.
Everything of a channel is in one shard.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Command
from gateway.bus.pool import Pool
from gateway.contracts.errors import FileRefused
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import FetchedFile, WantedAttachment
from gateway.limits import (
    ATTACHMENT_PIECE_BYTES,
    ATTACHMENT_PIECES_AHEAD,
    ATTACHMENT_SILENCE_S,
    ATTACHMENT_TTL_S,
    ATTACHMENT_WISHES_MAX,
    BUS_WAIT_MAX_S,
)

_AT_IT: Final = b"~"
_HEAD: Final = b"="
_PIECE: Final = b"+"
_REFUSED: Final = b"!"
"""What an element of `piece:` begins with."""

_MS: Final = 1000
_WAIT_MIN_S: Final = 0.001  # BLPOP takes zero for "for ever"
_NUMBER_BYTES: Final = 4


class Attachments:
    """`gateway.contracts.ports.AttachmentBus`: both ends, over connections that may block."""

    def __init__(self, pool: Pool, keys: ShardKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def fetch(self, wanted: WantedAttachment) -> FetchedFile | None:
        wished = self._keys.wished(wanted.channel)
        await self._push(wished, _entry(wanted), ("LTRIM", wished, -ATTACHMENT_WISHES_MAX, -1))
        try:
            return await self._gathered(wanted)
        finally:
            await self._pool.transaction([
                ("LREM", wished, 0, _entry(wanted)),
                ("DEL", self._keys.pieces(wanted.ticket), self._keys.taken(wanted.ticket)),
            ])  # fmt: skip

    async def wanted(self, channel: str, *, wait_s: float) -> WantedAttachment | None:
        answer = await self._pool.call("BLPOP", self._keys.wished(channel), _wait(wait_s))
        return None if answer is None else _wanted(channel, answer[1])

    async def at_it(self, wanted: WantedAttachment) -> None:
        await self._push(self._keys.pieces(wanted.ticket), _AT_IT)

    async def lend(self, wanted: WantedAttachment, file: FetchedFile) -> bool:
        pieces, taken = self._keys.pieces(wanted.ticket), self._keys.taken(wanted.ticket)
        await self._push(pieces, _HEAD + _head(file))
        for number, piece in enumerate(_cut(file.content)):
            is_ahead = number >= ATTACHMENT_PIECES_AHEAD
            if is_ahead and await self._pool.call("BLPOP", taken, _wait(ATTACHMENT_SILENCE_S)) is None:
                await self._pool.call("DEL", pieces, taken)
                return False
            await self._push(pieces, _PIECE + number.to_bytes(_NUMBER_BYTES) + piece)
        return True

    async def refuse(self, wanted: WantedAttachment, *, reason: str) -> None:
        await self._push(self._keys.pieces(wanted.ticket), _REFUSED + reason.encode())

    async def _gathered(self, wanted: WantedAttachment) -> FetchedFile | None:
        """What comes for this ticket, until it is whole or nothing comes any more."""
        file: _Arriving | None = None
        while file is None or not file.is_whole:
            answer = await self._pool.call("BLPOP", self._keys.pieces(wanted.ticket), _wait(ATTACHMENT_SILENCE_S))
            if answer is None:
                return None
            kind, body = answer[1][:1], answer[1][1:]
            if kind == _REFUSED:
                raise FileRefused(body.decode())
            if kind == _HEAD:
                file = _Arriving.announced(body)
            elif kind == _PIECE:
                if file is None or not file.take(body):
                    return None  # a server that took over had not heard of all of it
                await self._push(self._keys.taken(wanted.ticket), b"1")
        return FetchedFile(file.name, file.media_type, bytes(file.content))

    async def _push(self, key: str, element: bytes, *more: Command) -> None:
        ttl_ms = ATTACHMENT_TTL_S * _MS
        await self._pool.transaction([("RPUSH", key, element), *more, ("PEXPIRE", key, ttl_ms)])


@dataclass(slots=True)
class _Arriving:
    """A file of which some pieces are here."""

    name: str
    media_type: str
    size_bytes: int
    content: bytearray = field(default_factory=bytearray)
    pieces: int = 0

    @classmethod
    def announced(cls, head: bytes) -> _Arriving:
        name, media_type, size_bytes = json.loads(head)
        return cls(name, media_type, size_bytes)

    @property
    def is_whole(self) -> bool:
        return len(self.content) >= self.size_bytes

    def take(self, body: bytes) -> bool:
        """The next piece; False if it is another one."""
        number, piece = int.from_bytes(body[:_NUMBER_BYTES]), body[_NUMBER_BYTES:]
        if number != self.pieces:
            return False
        self.pieces += 1
        self.content += piece
        return True


def _cut(content: bytes) -> Iterator[bytes]:
    for at in range(0, len(content), ATTACHMENT_PIECE_BYTES):
        yield content[at : at + ATTACHMENT_PIECE_BYTES]


def _wait(wait_s: float) -> str:
    return f"{max(_WAIT_MIN_S, min(wait_s, BUS_WAIT_MAX_S)):.3f}"


def _head(file: FetchedFile) -> bytes:
    return json.dumps([file.name, file.media_type, len(file.content)], ensure_ascii=False).encode(errors="replace")


def _entry(wanted: WantedAttachment) -> bytes:
    return json.dumps([wanted.ticket, str(wanted.key), wanted.reference, wanted.bytes_max]).encode()


def _wanted(channel: str, entry: bytes) -> WantedAttachment:
    ticket, key, reference, bytes_max = json.loads(entry)
    return WantedAttachment(ticket, channel, SessionKey.parse(key), reference, bytes_max)
