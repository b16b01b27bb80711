"""Files that people sent on Discord. Their addresses are signed and expire within a day: so the message is read once
more, and the address is as fresh as the wish.
"""

from __future__ import annotations

from typing import Final

import discord

from channels.downloading import ELSEWHERE, GONE, NOT_FOR_US, belongs_to, download, is_on
from channels.raw import target_fields, text
from gateway.contracts.errors import FileRefused
from gateway.contracts.ports import FetchedFile

_CDN: Final = ("discordapp.com", "discordapp.net", "discord.com")


class DiscordFiles:
    """What leads from a reference (`channels.discord.normalize`) to bytes. At another API than Discord's own, files
    may be on its machine, too."""

    def __init__(self, api_base: str) -> None:
        self._api_base = api_base

    async def fetch(self, client: discord.Client, reference: str, *, bytes_max: int) -> FetchedFile:
        """Raises `FileRefused`, `SendFailed`, and what the SDK raises."""
        fields = target_fields(reference)
        channel_id, message_id = text(fields.get("channel_id")), text(fields.get("message_id"))
        place = client.get_partial_messageable(int(channel_id))
        try:
            message = await place.fetch_message(int(message_id))
        except discord.Forbidden:
            raise FileRefused(NOT_FOR_US) from None
        except discord.NotFound:
            raise FileRefused(GONE) from None
        name, url = _found(message, int(text(fields.get("id"))))
        if not (is_on(url, *_CDN) or belongs_to(url, self._api_base)):
            raise FileRefused(ELSEWHERE)
        found = await download(url, bytes_max=bytes_max)
        return FetchedFile(name, found.media_type, found.content)


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
