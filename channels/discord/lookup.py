"""Did a message of ours arrive? For two minutes its nonce answers that; after that the channel's history does."""

from __future__ import annotations

import base64
import hashlib

import discord

from channels.adapter import MARKS
from channels.discord import limits
from channels.discord.address import DiscordTarget
from channels.discord.render import DiscordFile, DiscordPart
from channels.discord.snowflakes import snowflake_at
from gateway.contracts.errors import Untraceable


def nonce_of(send_id: str) -> str:
    """The same for every attempt at one chunk; Discord shows the earlier message instead of a second one."""
    digest = hashlib.blake2s(send_id.encode()).digest()
    return base64.b32encode(digest).decode()[: limits.NONCE_CHARS]


async def find_message(
    place: discord.PartialMessageable,
    target: DiscordTarget,
    chunk: DiscordPart,
    *,
    me: int,
    nonce: str,
    since_ms: int,
) -> tuple[str, ...] | None:
    """The id of our message that shows the chunk; None when it is surely not there.

    Raises `Untraceable` without the right to read the history, or when it goes on too long; else what the SDK raises.
    """
    after = discord.Object(snowflake_at(since_ms - limits.LOOKUP_MARGIN_S * 1000))
    seen = 0
    try:
        async for message in place.history(after=after, oldest_first=True, limit=limits.LOOKUP_MESSAGES_MAX):
            seen += 1
            if message.author.id == me and _is_the_same(message, target, chunk, nonce):
                return (str(message.id),)
    except (discord.Forbidden, discord.NotFound) as error:
        raise Untraceable(f"the history cannot be read (code {error.code})") from error
    if seen >= limits.LOOKUP_MESSAGES_MAX:
        raise Untraceable("too much was said since")
    return None


def _is_the_same(message: discord.Message, target: DiscordTarget, chunk: DiscordPart, nonce: str) -> bool:
    """The nonce if the history shows it, else the same words, and a file of the same size if there is one, as an
    answer to the same message."""
    if message.nonce is not None:
        return str(message.nonce) == nonce
    answered = message.reference.message_id if message.reference else None
    if answered is not None and target.reply_to_message_id is not None and answered != int(target.reply_to_message_id):
        return False
    sizes = [attachment.size for attachment in message.attachments]
    if sizes != ([len(chunk.data)] if isinstance(chunk, DiscordFile) else []):
        return False
    mark = next(filter(message.content.startswith, MARKS), "")
    return message.content.removeprefix(mark).strip() in (chunk.content.strip(), chunk.plain.strip())
