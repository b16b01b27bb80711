"""Buttons under messages, and the interactions that come back from them.

An interaction wants an answer within three seconds, and lets us go on for fifteen minutes: as soon as the bus has
the press it is acknowledged, which shows nothing, and a word for the one who pressed follows, for him alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import discord
from discord.ui import Button, View

from channels import notices
from channels.adapter import Door
from channels.discord import limits
from channels.discord.hooks import ORIGINAL, change, hook_of
from channels.discord.links import Links
from channels.discord.normalize import DiscordIdentity
from channels.discord.presses import DiscordPress, normalize_press
from channels.discord.render import render
from channels.errands import Errands
from channels.normalized import Ignored, Incoming
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import Choice, CleanText
from gateway.words import words_for


def view_of(choices: Sequence[Choice]) -> View | None:
    """Rows of five buttons. The SDK keeps nothing of it: whoever hears of a press may be another process."""
    if not choices:
        return None
    view = View(timeout=None)
    for choice in choices[: limits.BUTTONS_MAX]:
        view.add_item(Button(label=choice.label[: limits.BUTTON_LABEL_CHARS_MAX], custom_id=choice.command))
    view.stop()
    return view


class Presses:
    """The presses that one session hears of."""

    def __init__(self, me: DiscordIdentity, door: Door, links: Links, errands: Errands) -> None:
        self._me = me
        self._door = door
        self._links = links
        self._errands = errands

    def heard(self, interaction: discord.Interaction) -> None:
        """Any interaction; those that are no presses are of no use to us."""
        if interaction.type is discord.InteractionType.component:
            self._errands.start(self._take(interaction))

    async def _take(self, interaction: discord.Interaction) -> None:
        press = normalize_press(_lifted(interaction), self._me)
        if isinstance(press, Ignored):
            await interaction.response.defer()
            return
        try:
            async with asyncio.timeout(limits.PRESS_TAKEN_WITHIN_S):
                if press.is_aside:
                    await self._links.keep(str(interaction.id), interaction.token, is_open=False)
                word = await self._door.press(press)
        except (BusUnavailable, TimeoutError):
            await interaction.response.send_message(
                words_for(press.language).say(notices.NOT_NOW), ephemeral=True, suppress_embeds=True
            )
            return
        if press.is_aside and word is None:
            await self._await_answer(interaction, press)
            return
        await interaction.response.defer()
        await _whisper(interaction, await self._door.told(press) if word is None else word)

    async def _await_answer(self, interaction: discord.Interaction, press: Incoming) -> None:
        """What comes of it fills a message that only he sees: the answer, by the link, or why there will be none."""
        await interaction.response.defer(ephemeral=True, thinking=True)
        await self._links.keep(str(interaction.id), interaction.token, is_open=True)
        if word := await self._door.told(press):
            first, *_ = render(word)
            await change(hook_of(interaction.client, interaction.token), ORIGINAL, first.content, None)


async def _whisper(interaction: discord.Interaction, word: CleanText) -> None:
    for chunk in render(word):
        await interaction.followup.send(
            chunk.content, ephemeral=True, suppress_embeds=True, allowed_mentions=discord.AllowedMentions.none()
        )


def _lifted(interaction: discord.Interaction) -> DiscordPress:
    told = cast(Mapping[str, Any], interaction.data or {})
    return DiscordPress(
        id=str(interaction.id),
        channel_id=str(interaction.channel_id or ""),
        user_id=str(interaction.user.id),
        user_name=interaction.user.display_name,
        custom_id=str(told.get("custom_id", "")),
        is_bot=interaction.user.bot,
        locale=interaction.locale.value,
        is_aside=interaction.message is not None and interaction.message.flags.ephemeral,
    )
