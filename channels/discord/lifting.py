"""A message of discord.py as plain values: the one place that reads the SDK's object."""

from __future__ import annotations

import discord

from channels.discord.normalize import DiscordFile, DiscordMessage

FORWARDED = discord.MessageReferenceType.forward


def lift(message: discord.Message, own_role_id: str | None) -> DiscordMessage:
    """What `normalize` reads. Live messages and those of the history come out the same."""
    thread = message.channel if isinstance(message.channel, discord.Thread) else None
    return DiscordMessage(
        id=str(message.id),
        channel_id=str(message.channel.id),
        author_id=str(message.author.id),
        author_name=message.author.display_name,
        content=message.content,
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
        referenced_author_id=_answered_author(message),
        files=tuple(_file(attachment) for attachment in message.attachments),
        forwarded=tuple(snapshot.content for snapshot in message.message_snapshots),
        guild_locale=message.guild.preferred_locale.value if message.guild else "",
        user_names={str(user.id): user.display_name for user in message.mentions},
        role_names={str(role.id): role.name for role in message.role_mentions},
        channel_names={str(channel.id): str(channel) for channel in message.channel_mentions},
    )


def _guild_id(message: discord.Message) -> str | None:
    """None in a direct chat only. A channel that the SDK does not know yet still names its guild."""
    if message.guild is not None:
        return str(message.guild.id)
    known = message.channel.guild_id if isinstance(message.channel, discord.PartialMessageable) else None
    return str(known) if known else None


def _answered_author(message: discord.Message) -> str | None:
    """The author of the message replied to, unless it is gone; a forwarded message answers nobody."""
    reference = message.reference
    if reference is None or reference.type is FORWARDED or not isinstance(reference.resolved, discord.Message):
        return None
    return str(reference.resolved.author.id)


def _file(attachment: discord.Attachment) -> DiscordFile:
    return DiscordFile(
        id=str(attachment.id),
        filename=attachment.filename,
        content_type=attachment.content_type or "",
        size_bytes=attachment.size,
        is_voice=attachment.is_voice_message(),
    )
