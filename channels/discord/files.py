"""Files that people sent on Discord. Their addresses are signed and expire within a day: so the message is read once
more, and the address is as fresh as the wish.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import discord

from channels.discord import limits
from channels.inbound.downloading import ELSEWHERE, GONE, NOT_FOR_US, belongs_to, download, is_on
from channels.raw import target_fields, text
from gateway.contracts.errors import FileRefused
from gateway.contracts.ports import FetchedFile

_CDN: Final = ("discordapp.com", "discordapp.net", "discord.com")


@dataclass(frozen=True, slots=True)
class _Reference:
    """What `channels.discord.normalize` wrote."""

    channel_id: int
    message_id: int
    file_id: int


class DiscordFiles:
    """What leads from a reference to bytes. At another API than Discord's own, files may be on its machine, too. A
    message is read once for all of its files."""

    def __init__(self, api_base: str, proxy: str = "") -> None:
        self._api_base = api_base
        self._proxy = proxy
        self._read: OrderedDict[int, tuple[float, discord.Message]] = OrderedDict()

    async def fetch(self, client: discord.Client, reference: str, *, bytes_max: int) -> FetchedFile:
        """Raises `FileRefused`, `SendFailed`, and what the SDK raises."""
        wanted = _parsed(reference)
        known = self._read_lately(wanted.message_id)
        if known is not None:
            try:
                return await self._downloaded(known, wanted, bytes_max)
            except FileRefused:
                del self._read[wanted.message_id]  # as it was: whatever is wrong, it is seen in what it is now
        message = await _message(client, wanted)
        self._remember(message)
        return await self._downloaded(message, wanted, bytes_max)

    async def _downloaded(self, message: discord.Message, wanted: _Reference, bytes_max: int) -> FetchedFile:
        name, url = _found(message, wanted.file_id)
        if not (is_on(url, *_CDN) or belongs_to(url, self._api_base)):
            raise FileRefused(ELSEWHERE)
        found = await download(url, bytes_max=bytes_max, proxy=self._proxy)
        return FetchedFile(name, found.media_type, found.content)

    def _read_lately(self, message_id: int) -> discord.Message | None:
        at_s, message = self._read.get(message_id, (0.0, None))
        return message if asyncio.get_running_loop().time() - at_s < limits.READ_AGAIN_AFTER_S else None

    def _remember(self, message: discord.Message) -> None:
        self._read[message.id] = asyncio.get_running_loop().time(), message
        while len(self._read) > limits.READ_LATELY_MAX:
            self._read.popitem(last=False)


def _parsed(reference: str) -> _Reference:
    fields = target_fields(reference)
    return _Reference(*(int(text(fields.get(name))) for name in ("channel_id", "message_id", "id")))


async def _message(client: discord.Client, wanted: _Reference) -> discord.Message:
    try:
        return await client.get_partial_messageable(wanted.channel_id).fetch_message(wanted.message_id)
    except discord.Forbidden:
        raise FileRefused(NOT_FOR_US) from None
    except discord.NotFound:
        raise FileRefused(GONE) from None


def _found(message: discord.Message, file_id: int) -> tuple[str, str]:
    """Name and address of one file of a message, of what it passes on, or of its stickers."""
    attached = [*message.attachments, *(file for shot in message.message_snapshots for file in shot.attachments)]
    for attachment in attached:
        if attachment.id == file_id:
            return attachment.filename, attachment.url
    for sticker in [*message.stickers, *(item for shot in message.message_snapshots for item in shot.stickers)]:
        if sticker.id == file_id:
            return sticker.name, sticker.url
    raise FileRefused(GONE)
