"""Messages of the bot that everybody in a place sees."""

from __future__ import annotations

import io
from typing import cast

import discord
from discord.ui import View

from channels.discord import limits
from channels.discord.address import DiscordTarget
from channels.discord.buttons import view_of
from channels.discord.lookup import nonce_of
from channels.discord.render import DiscordChunk, DiscordFile, DiscordPart


async def post(
    client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, plain: bool
) -> tuple[str, ...]:
    """Say it where the target is, as an answer to its message if it names one, and if Discord lets us: in a channel
    whose history is closed to us it does not. Raises what the SDK raises."""
    reference = _answered(target, chunk)
    try:
        return await _posted(client, target, chunk, reference, send_id=send_id, plain=plain)
    except discord.HTTPException as error:
        if reference is None or not _is_about_the_reference(error):
            raise
    return await _posted(client, target, chunk, None, send_id=send_id, plain=plain)


def is_silent(chunk: DiscordPart) -> bool:
    return isinstance(chunk, DiscordChunk) and chunk.is_silent


async def _posted(
    client: discord.Client,
    target: DiscordTarget,
    chunk: DiscordPart,
    reference: discord.MessageReference | None,
    *,
    send_id: str,
    plain: bool,
) -> tuple[str, ...]:
    """None stands for nothing to the SDK, too, though its overloads do not say so. A message keeps what it was told of
    embeds, whatever becomes of its words."""
    sent = await client.get_partial_messageable(int(target.channel_id)).send(
        chunk.plain if plain else chunk.content,
        nonce=nonce_of(send_id),
        allowed_mentions=discord.AllowedMentions.none(),
        reference=cast(discord.MessageReference, reference),
        view=cast(View, view_of(chunk.choices)),
        file=cast(discord.File, _attachment(chunk)),
        suppress_embeds=True,
        silent=is_silent(chunk),
    )
    return (str(sent.id),)


def _answered(target: DiscordTarget, chunk: DiscordPart) -> discord.MessageReference | None:
    """The message that is answered. That it may be gone by now is no reason to fail."""
    if target.reply_to_message_id is None or is_silent(chunk):
        return None
    return discord.MessageReference(
        message_id=int(target.reply_to_message_id), channel_id=int(target.channel_id), fail_if_not_exists=False
    )


def _is_about_the_reference(error: discord.HTTPException) -> bool:
    """The words of an invalid form name the field that Discord does not take."""
    return error.code == limits.REPLY_NEEDS_HISTORY or (
        error.code == limits.INVALID_FORM and "message_reference" in error.text
    )


def _attachment(chunk: DiscordPart) -> discord.File | None:
    return discord.File(io.BytesIO(chunk.data), filename=chunk.name) if isinstance(chunk, DiscordFile) else None
