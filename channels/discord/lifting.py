"""A message of discord.py back into the shape that Discord's API documents, which `normalize` reads.

Live messages and history reach us as the SDK's objects; so both are read by one function, which is tested
on documented JSON.
"""

from __future__ import annotations

from typing import Any

import discord


def lift(message: discord.Message) -> dict[str, Any]:
    """The documented fields that `normalize` looks at."""
    lifted: dict[str, Any] = {
        "id": str(message.id),
        "channel_id": str(message.channel.id),
        "type": message.type.value,
        "flags": message.flags.value,
        "author": _user(message.author),
        "content": message.content,
        "timestamp": message.created_at.isoformat(),
        "edited_timestamp": message.edited_at.isoformat() if message.edited_at else None,
        "mention_everyone": message.mention_everyone,
        "mentions": [_user(user) for user in message.mentions],
        "mention_roles": [str(role_id) for role_id in message.raw_role_mentions],
        "attachments": [_attachment(attachment) for attachment in message.attachments],
        "sticker_items": [{"id": str(sticker.id), "name": sticker.name} for sticker in message.stickers],
        "channel_type": _channel_type(message.channel),
    }
    if message.guild is not None:
        lifted["guild_id"] = str(message.guild.id)
        lifted["member"] = {"nick": getattr(message.author, "nick", None)}
    if message.webhook_id is not None:
        lifted["webhook_id"] = str(message.webhook_id)
    parent_id = getattr(message.channel, "parent_id", None)
    if parent_id is not None:
        lifted["parent_id"] = str(parent_id)
    return lifted | _reference(message)


def _user(user: discord.abc.User) -> dict[str, Any]:
    return {
        "id": str(user.id),
        "username": user.name,
        "global_name": getattr(user, "global_name", None),
        "bot": user.bot,
        "system": getattr(user, "system", False),
    }


def _attachment(attachment: discord.Attachment) -> dict[str, Any]:
    return {
        "id": str(attachment.id),
        "filename": attachment.filename,
        "content_type": attachment.content_type,
        "size": attachment.size,
        "url": attachment.url,
    }


def _channel_type(channel: Any) -> int | None:
    kind = getattr(channel, "type", None)
    return None if kind is None else int(kind.value)


def _reference(message: discord.Message) -> dict[str, Any]:
    reference = message.reference
    if reference is None:
        return {}
    lifted: dict[str, Any] = {
        "message_reference": {
            "type": reference.type.value,
            "message_id": None if reference.message_id is None else str(reference.message_id),
            "channel_id": str(reference.channel_id),
        }
    }
    target = reference.resolved
    if isinstance(target, discord.Message):
        lifted["referenced_message"] = {
            "id": str(target.id),
            "author": _user(target.author),
            "content": target.content,
            "type": target.type.value,
        }
    return lifted
