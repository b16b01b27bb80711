"""Answers to commands chosen from the menu: through their link, to which nobody but the one who asked may listen.

The first message of the answer fills the one that Discord shows since the command was taken; that is an edit, and may
be repeated. What follows is a message like any other where everybody may read it, and a follow-up where only one may:
such a one stands in no history and has no nonce, so what became of it nobody can find out.
"""

from __future__ import annotations

import io
from typing import Final, cast

import discord
from discord.ui import View

from channels.discord import limits
from channels.discord.address import DiscordTarget
from channels.discord.buttons import view_of
from channels.discord.hooks import ORIGINAL, change, hook_of
from channels.discord.links import Links
from channels.discord.render import DiscordFile, DiscordPart
from channels.outbound.page import AGAIN

_NO_REPLY: Final = "stopped"  # has the link in the place of a reply


class Asides:
    """The answers of one bot. All raise what the SDK raises, and `SendFailed` without the bus."""

    def __init__(self, links: Links) -> None:
        self._links = links

    async def send(
        self, client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, plain: bool
    ) -> tuple[str, ...] | None:
        """The ids of what is shown; None if it is to be an ordinary message."""
        reply_id, is_first = _parted(send_id)
        if target.link is None or not goes_by_link(target, send_id):
            return None
        token = await self._links.token_for(reply_id, target.link)
        if not token:
            return None
        hook = hook_of(client, token)
        text = chunk.plain if plain else chunk.content
        view = view_of(chunk.choices)
        try:
            if is_first and (shown := await _filled(hook, text, view, chunk)) is not None:
                return (shown,)
            if not target.is_aside:
                return None
            return (str((await _followed(hook, text, view, chunk)).id),)
        except discord.HTTPException as error:
            if _is_dead(error):
                return None
            raise

    async def release(self, client: discord.Client, target: DiscordTarget) -> None:
        """Take away what says that an answer comes, unless one has come. From now on the link is nobody's."""
        token = await self._links.token_for(_NO_REPLY, target.link) if target.link is not None else ""
        if token:
            try:
                await hook_of(client, token).delete_message(cast(int, ORIGINAL))
            except discord.HTTPException as error:
                if not _is_dead(error):
                    raise

    async def may_repeat(self, target: DiscordTarget, *, send_id: str) -> bool:
        """Whether sending once more shows nothing twice, whatever became of it, because it is an edit."""
        reply_id, is_first = _parted(send_id)
        return target.link is not None and is_first and bool(await self._links.token_for(reply_id, target.link))

    async def amend(
        self, client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, message_id: str, plain: bool
    ) -> bool:
        """Change a message of the answer that nobody else sees. False: it is gone, or out of reach by now."""
        token = await self._links.token(target.link) if target.link is not None else ""
        if not token:
            return False
        try:
            text = chunk.plain if plain else chunk.content
            await change(hook_of(client, token), message_id, text, view_of(chunk.choices))
        except discord.HTTPException as error:
            if _is_dead(error):
                return False
            raise
        return True


def goes_by_link(target: DiscordTarget, send_id: str) -> bool:
    """Whether this message of a reply goes to the one who chose a command, as long as there is a way."""
    return target.link is not None and (target.is_aside or _parted(send_id)[1])


async def _filled(hook: discord.Webhook, text: str, view: View | None, chunk: DiscordPart) -> str | None:
    """None: the one who asked has put the message away."""
    try:
        return await change(hook, ORIGINAL, text, view, files=_files(chunk))
    except discord.NotFound as error:
        if error.code != limits.UNKNOWN_MESSAGE:
            raise
        return None


async def _followed(hook: discord.Webhook, text: str, view: View | None, chunk: DiscordPart) -> discord.WebhookMessage:
    return await hook.send(
        text,
        wait=True,
        ephemeral=True,
        suppress_embeds=True,
        files=_files(chunk),
        view=cast(View, view or discord.utils.MISSING),
        allowed_mentions=discord.AllowedMentions.none(),
    )


def _files(chunk: DiscordPart) -> list[discord.File]:
    return [discord.File(io.BytesIO(chunk.data), filename=chunk.name)] if isinstance(chunk, DiscordFile) else []


def _parted(send_id: str) -> tuple[str, bool]:
    """The reply (`channels.outbound.page` says how its messages are named), and whether this is its first message."""
    reply_id, _, step = send_id.removesuffix(AGAIN).rpartition(":")
    return reply_id, step == "0"


def _is_dead(error: discord.HTTPException) -> bool:
    """The token has expired, Discord was never told that an answer comes, or this way is closed for another reason. It
    says nothing of the bot's own token, nor of the channel."""
    return error.status in (401, 403, 404)
