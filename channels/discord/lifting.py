"""A message of discord.py as plain values: the one place that reads the SDK's object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import discord

from channels.discord.normalize import DiscordFile, DiscordMessage, DiscordQuoted

FORWARDED: Final = discord.MessageReferenceType.forward
_MEDIA_TYPES: Final = {
    discord.StickerFormatType.png: "image/png",
    discord.StickerFormatType.apng: "image/png",
    discord.StickerFormatType.gif: "image/gif",
}
"""Of stickers that are images; the others are drawn by Discord's clients."""


class Filed(Protocol):
    """What has files: a message, and the snapshot of one that is passed on."""

    flags: discord.MessageFlags
    attachments: list[discord.Attachment]
    stickers: list[discord.StickerItem]


def lift(message: discord.Message, own_role_id: str | None) -> DiscordMessage:
    """What `normalize` reads. Live messages and those of the history come out the same."""
    thread = message.channel if isinstance(message.channel, discord.Thread) else None
    return DiscordMessage(
        id=str(message.id),
        channel_id=str(message.channel.id),
        author_id=str(message.author.id),
        author_name=message.author.display_name,
        content=message.content or _sticker_names(message),
        created_at_ms=int(message.created_at.timestamp() * 1000),
        type=message.type.value,
        guild_id=_guild_id(message),
        parent_id=str(thread.parent_id) if thread else None,
        thread_owner_id=str(thread.owner_id) if thread else None,
        is_bot=message.author.bot,
        webhook_id=str(message.webhook_id) if message.webhook_id else None,
        mentions=tuple(str(user.id) for user in message.mentions),
        mentioned_roles=tuple(str(role_id) for role_id in message.raw_role_mentions),
        own_role_id=own_role_id,
        answered=_answered(message),
        files=tuple(_files(message)),
        forwarded=tuple(_passed_on(message)),
        guild_locale=message.guild.preferred_locale.value if message.guild else "",
        is_place_known=not isinstance(message.channel, discord.PartialMessageable),
        author_roles=roles_of(message.author),
        takes_threads=isinstance(message.channel, discord.TextChannel),
        user_names={str(user.id): user.display_name for user in message.mentions},
        role_names={str(role.id): role.name for role in message.role_mentions},
        channel_names={str(channel.id): str(channel) for channel in message.channel_mentions},
    )


def roles_of(author: discord.abc.User) -> tuple[str, ...]:
    """Those of a member of a server, but for the one that everybody has."""
    if not isinstance(author, discord.Member):
        return ()
    return tuple(str(role.id) for role in author.roles if not role.is_default())


def _guild_id(message: discord.Message) -> str | None:
    """None in a direct chat only. A channel that the SDK does not know yet still names its guild."""
    if message.guild is not None:
        return str(message.guild.id)
    known = message.channel.guild_id if isinstance(message.channel, discord.PartialMessageable) else None
    return str(known) if known else None


def _answered(message: discord.Message) -> DiscordQuoted | None:
    """The message replied to, unless it is gone; a forwarded message answers nobody."""
    reference = message.reference
    if reference is None or reference.type is FORWARDED or not isinstance(reference.resolved, discord.Message):
        return None
    answered = reference.resolved
    return DiscordQuoted(
        channel_id=str(answered.channel.id),
        message_id=str(answered.id),
        content=answered.content or _sticker_names(answered),
        author_id=str(answered.author.id),
        author_name=answered.author.display_name,
        files=tuple(_files(answered)),
        user_names={str(user.id): user.display_name for user in answered.mentions},
    )


def _passed_on(message: discord.Message) -> Iterator[DiscordQuoted]:
    for snapshot in message.message_snapshots:
        said = snapshot.content or _sticker_names(snapshot)
        yield DiscordQuoted(str(message.channel.id), str(message.id), said, files=tuple(_files(snapshot)))


def _sticker_names(holder: Filed) -> str:
    """What stands for the words of a message that is only a sticker."""
    return " ".join(f":{sticker.name}:" for sticker in holder.stickers)


def _files(holder: Filed) -> Iterator[DiscordFile]:
    for attachment in holder.attachments:
        yield _file(attachment, is_voice=holder.flags.voice)
    for sticker in holder.stickers:
        if sticker.format in _MEDIA_TYPES:
            yield DiscordFile(str(sticker.id), sticker.name, _MEDIA_TYPES[sticker.format])


def _file(attachment: discord.Attachment, *, is_voice: bool) -> DiscordFile:
    return DiscordFile(
        id=str(attachment.id),
        filename=attachment.filename,
        content_type=attachment.content_type or "",
        size_bytes=attachment.size,
        is_voice=is_voice or attachment.is_voice_message(),
    )
