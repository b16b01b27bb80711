"""Commands chosen from the menu, and what is suggested while they are typed.

Discord gives three seconds. As soon as the bus has a command Discord is told that its answer comes, which shows that we
think; the answer finds its way by the link. What is turned away is told so at once, to the one who asked alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import discord
from discord.app_commands import Choice

from channels import notices
from channels.adapter import Door
from channels.discord import limits
from channels.discord.address import parse_target
from channels.discord.lifting import roles_of
from channels.discord.links import Links
from channels.discord.normalize import DiscordIdentity
from channels.discord.render import render
from channels.discord.slash import DiscordInvocation, normalize_invocation
from channels.errands import Errands
from channels.normalized import Ignored, Incoming
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import CleanText
from gateway.words import words_for

_ALREADY_ANSWERED: Final = 40060


class Invocations:
    """Those that one session hears of."""

    def __init__(self, me: DiscordIdentity, door: Door, links: Links, errands: Errands) -> None:
        self._me = me
        self._door = door
        self._links = links
        self._errands = errands

    def heard(self, interaction: discord.Interaction) -> None:
        """Any interaction; those that are no commands are not for us."""
        match interaction.type:
            case discord.InteractionType.application_command:
                self._errands.start(self._take(interaction))
            case discord.InteractionType.autocomplete:
                self._errands.start(self._suggest(interaction))
            case _:
                pass

    async def _take(self, interaction: discord.Interaction) -> None:
        chosen = normalize_invocation(_lifted(interaction), self._me)
        if isinstance(chosen, Ignored):
            await _tell(interaction, words_for(interaction.locale.value).say(notices.NOT_FOR_ME))
            return
        link, is_aside = str(interaction.id), parse_target(chosen.address.target).is_aside
        try:
            async with asyncio.timeout(limits.PRESS_TAKEN_WITHIN_S):
                await self._links.keep(link, interaction.token, is_open=False)
                word = await self._door.invoke(chosen)
        except (BusUnavailable, TimeoutError):
            await _tell(interaction, words_for(chosen.language).say(notices.NOT_NOW))
            return
        if word is not None:
            await _tell(interaction, word or words_for(chosen.language).say(notices.NOT_FOR_ME))
            return
        await _promise(interaction, is_aside=is_aside)
        await self._links.keep(link, interaction.token, is_open=True)

    async def _suggest(self, interaction: discord.Interaction) -> None:
        typing = normalize_invocation(_lifted(interaction), self._me)
        found = await self._door.suggest(typing) if isinstance(typing, Incoming) else ()
        choices = [Choice[str | int | float](name=each.label, value=str(each.value)) for each in found]
        await interaction.response.autocomplete(choices)


async def _promise(interaction: discord.Interaction, *, is_aside: bool) -> None:
    """An answer comes. Discord hands out a command again after a lost connection: then it knows by now."""
    try:
        await interaction.response.defer(ephemeral=is_aside, thinking=True)
    except discord.HTTPException as error:
        if error.code != _ALREADY_ANSWERED:
            raise


async def _tell(interaction: discord.Interaction, word: CleanText) -> None:
    first, *_ = render(word)
    await interaction.response.send_message(
        first.content, ephemeral=True, suppress_embeds=True, allowed_mentions=discord.AllowedMentions.none()
    )


def _lifted(interaction: discord.Interaction) -> DiscordInvocation:
    told = cast(Mapping[str, Any], interaction.data or {})
    options = [option for option in told.get("options") or () if "value" in option]
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    return DiscordInvocation(
        id=str(interaction.id),
        channel_id=str(interaction.channel_id or ""),
        user_id=str(interaction.user.id),
        user_name=interaction.user.display_name,
        name=str(told.get("name", "")),
        argument=str(options[0]["value"]).strip() if options else "",
        created_at_ms=int(interaction.created_at.timestamp() * 1000),
        guild_id=str(interaction.guild_id or ""),
        parent_id=str(thread.parent_id) if thread else "",
        is_direct=interaction.guild_id is None and not interaction.context.private_channel,
        is_bot=interaction.user.bot,
        locale=interaction.locale.value,
        roles=roles_of(interaction.user),
    )
