"""Files on their way between the roles, and sealed secrets for tools.

A channel has no SQL, and an agent process no connection to a platform. The bytes of a committed file go from SQL to the
channel that is about to send it; a file that a person sent goes from the channel that fetches it to the turn that
needs it. A process that needs a file writes down what it wants, one that has it reads that and puts the bytes in a key
that ends by itself: nothing large lies on the bus for a process that is away, and what Redis loses is asked for again.

A file that a person sent goes in pieces, and no more than ATTACHMENT_PIECES_AHEAD of them lie on the bus: the next one
follows when one was taken. The process that fetches says every second that it is still at it, so that one that was
killed is noticed and the file asked for again."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway import limits
from gateway.bus.scripts import Command, Word
from gateway.bus.shards import Shard, Shards
from gateway.contracts.errors import FileRefused
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import SealedSecret, SecretName
from gateway.contracts.ports import FetchedFile, WantedAttachment, WantedFile

_AT_IT: Final = b"~"
_HEAD: Final = b"="
_PIECE: Final = b"+"
_REFUSED: Final = b"!"
"""The first byte of an element of `piece:`."""

_MS: Final = 1000
_NUMBER_BYTES: Final = 4
_SEPARATOR: Final = "\x1f"


class Files:
    """Both ends of both hand-overs, over connections that may block. Raises `BusUnavailable`.

    Committed files are in the first shard (at most FILES_AT_ONCE of each channels process at a time), those that
    people sent in the shard of the channel."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    # --- committed files: a channel fetches, an agent process puts

    async def fetch_file(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        """Return the bytes of a file, from whichever agent process answers; empty when nobody keeps them any more, None
        when nobody answered in time. May be repeated."""
        first, entry = self._shards.first, _file_entry(wanted)
        await first.pool.transaction(
            [
                ("LREM", first.keys.wanted, 0, entry),  # one who asks again wants it once
                ("RPUSH", first.keys.wanted, entry),
                ("LTRIM", first.keys.wanted, -limits.WANTED_FILES_MAX, -1),
                ("PEXPIRE", first.keys.wanted, limits.WANTED_TTL_S * _MS),
            ]
        )
        return await first.pop(first.keys.lent(_file_name(wanted)), wait_s=wait_s)

    async def wanted_file(self, *, wait_s: float) -> WantedFile | None:
        """Return a file whose bytes a channel waits for, each wish to one caller; None when nobody wished for any."""
        entry = await self._shards.first.pop(self._shards.first.keys.wanted, wait_s=wait_s)
        if entry is None:
            return None
        key, reply_id, position = json.loads(entry)
        return WantedFile(SessionKey.parse(key), reply_id, position)

    async def put_file(self, wanted: WantedFile, content: bytes) -> None:
        """Give the bytes to the asking process; empty: nobody keeps them any more."""
        first = self._shards.first
        lent = first.keys.lent(_file_name(wanted))
        await first.pool.transaction(
            [("DEL", lent), ("RPUSH", lent, content), ("PEXPIRE", lent, limits.LENT_TTL_S * _MS)]
        )

    # --- files that people sent: an agent process fetches, a channel puts

    async def fetch_attachment(self, wanted: WantedAttachment) -> FetchedFile | None:
        """Return the file, free of secrets where it is text. None when nobody answered, or fell silent on the way: then
        it may be asked for again. Raises `FileRefused`."""
        shard = self._shards.named(wanted.channel)
        wished = shard.keys.wished(wanted.channel)
        await _push(shard, wished, _entry(wanted), ("LTRIM", wished, -limits.ATTACHMENT_WISHES_MAX, -1))
        try:
            file: _Arriving | None = None
            while file is None or not file.is_whole:
                element = await shard.pop(shard.keys.pieces(wanted.ticket), wait_s=limits.ATTACHMENT_SILENCE_S)
                if element is None:
                    return None
                kind, body = element[:1], element[1:]
                if kind == _REFUSED:
                    raise FileRefused(body.decode())
                if kind == _HEAD:
                    file = _Arriving.announced(body)
                elif kind == _PIECE:
                    if file is None or not file.take(body):
                        return None  # a server that took over had not heard of all of it
                    await _push(shard, shard.keys.taken(wanted.ticket), b"1")
            return FetchedFile(file.name, file.media_type, bytes(file.content))
        finally:
            await shard.pool.transaction([
                ("LREM", wished, 0, _entry(wanted)),
                ("DEL", shard.keys.pieces(wanted.ticket), shard.keys.taken(wanted.ticket)),
            ])  # fmt: skip

    async def wanted_attachment(self, channel: str, *, wait_s: float) -> WantedAttachment | None:
        """Return a file of `channel` that a turn waits for, each wish to one caller; None when nobody wished for
        any."""
        shard = self._shards.named(channel)
        entry = await shard.pop(shard.keys.wished(channel), wait_s=wait_s)
        return None if entry is None else _wanted(channel, entry)

    async def note_fetching(self, wanted: WantedAttachment) -> None:
        """Say that somebody works on it: every ATTACHMENT_BEAT_S until it is put or refused."""
        shard = self._shards.named(wanted.channel)
        await _push(shard, shard.keys.pieces(wanted.ticket), _AT_IT)

    async def put_attachment(self, wanted: WantedAttachment, file: FetchedFile) -> bool:
        """Give it to the asking process, piece by piece, as fast as it is taken. False: nobody takes it any more."""
        shard = self._shards.named(wanted.channel)
        pieces, taken = shard.keys.pieces(wanted.ticket), shard.keys.taken(wanted.ticket)
        await _push(shard, pieces, _HEAD + _head(file))
        for number, piece in enumerate(_cut(file.content)):
            is_ahead = number >= limits.ATTACHMENT_PIECES_AHEAD
            if is_ahead and await shard.pop(taken, wait_s=limits.ATTACHMENT_SILENCE_S) is None:
                await shard.pool.call("DEL", pieces, taken)
                return False
            await _push(shard, pieces, _PIECE + number.to_bytes(_NUMBER_BYTES) + piece)
        return True

    async def refuse_attachment(self, wanted: WantedAttachment, *, reason: str) -> None:
        """Say that it cannot be had: `fetch_attachment` raises `FileRefused` with this reason."""
        shard = self._shards.named(wanted.channel)
        await _push(shard, shard.keys.pieces(wanted.ticket), _REFUSED + reason.encode())


class Vault:
    """Sealed secrets of people's messages, each until it expires or is used up: one hash for each owner, in the shard
    of the owner. What is kept here nobody on the bus can read: the key is elsewhere (gateway/scrub/vault.py).
    Raises `BusUnavailable`."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def put(self, secrets: Sequence[SealedSecret], *, uses: int) -> None:
        """Keep secrets of one lane, each for `uses` calls of one tool. One that is sent again begins anew; of one
        owner the newest VAULT_SECRETS_MAX are kept."""
        if not secrets:
            return
        arguments: list[Word] = [uses]
        for secret in secrets:
            arguments += [_field(secret.name), secret.expires_at_ms, b64encode(secret.sealed)]
        shard, vault = self._vault(secrets[0].name.key)
        await shard.run_script("put_secrets", (vault,), arguments)

    async def take(self, names: Sequence[SecretName], *, tool: str) -> Sequence[SealedSecret] | None:
        """Use up one call of each of these secrets of one lane, all of them or none (None: one of them is not there for
        that tool). The first tool that takes a secret is the only one that may.

        When it is repeated (its answer was lost), it takes once more: a secret may be used less often than it was
        allowed to, and never more often."""
        shard, vault = self._vault(names[0].key)
        found = await shard.run_script("take_secrets", (vault,), (tool, *(_field(name) for name in names)))
        if not found:
            return None
        pairs = zip(names, found[::2], found[1::2], strict=True)
        return [SealedSecret(name, int(expires_at_ms), b64decode(sealed)) for name, expires_at_ms, sealed in pairs]

    async def drop(self, key: SessionKey) -> None:
        """Forget everything of one lane."""
        shard, vault = self._vault(key)
        await shard.run_script("drop_secrets", (vault,), (f"{key}{_SEPARATOR}",))

    async def drop_all(self, owner: SessionKey) -> None:
        """Forget everything of all lanes of one owner."""
        shard, vault = self._vault(owner)
        await shard.line.call("DEL", vault)

    def _vault(self, key: SessionKey) -> tuple[Shard, str]:
        shard = self._shards.of(key)
        return shard, shard.keys.vault(str(key.owner))


async def _push(shard: Shard, key: str, element: bytes, *more: Command) -> None:
    ttl_ms = limits.ATTACHMENT_TTL_S * _MS
    await shard.pool.transaction([("RPUSH", key, element), *more, ("PEXPIRE", key, ttl_ms)])


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
        """Take the next piece; False if it is another one."""
        number, piece = int.from_bytes(body[:_NUMBER_BYTES]), body[_NUMBER_BYTES:]
        if number != self.pieces:
            return False
        self.pieces += 1
        self.content += piece
        return True


def _cut(content: bytes) -> Iterator[bytes]:
    for at in range(0, len(content), limits.ATTACHMENT_PIECE_BYTES):
        yield content[at : at + limits.ATTACHMENT_PIECE_BYTES]


def _head(file: FetchedFile) -> bytes:
    return json.dumps([file.name, file.media_type, len(file.content)], ensure_ascii=False).encode(errors="replace")


def _entry(wanted: WantedAttachment) -> bytes:
    return json.dumps([wanted.ticket, str(wanted.key), wanted.reference, wanted.bytes_max]).encode()


def _wanted(channel: str, entry: bytes) -> WantedAttachment:
    ticket, key, reference, bytes_max = json.loads(entry)
    return WantedAttachment(ticket, channel, SessionKey.parse(key), reference, bytes_max)


def _file_name(wanted: WantedFile) -> str:
    return f"{wanted.reply_id}:{wanted.position}"


def _file_entry(wanted: WantedFile) -> bytes:
    return json.dumps([str(wanted.key), wanted.reply_id, wanted.position], ensure_ascii=False).encode()


def _field(name: SecretName) -> str:
    return _SEPARATOR.join((str(name.key), str(name.sent_by), name.placeholder))
