"""What the gateway and the history tell, as plain values with the place they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

import discord

from channels.discord.lifting import lift
from channels.discord.normalize import DiscordDeletion, DiscordMessage
from channels.inbound.listening import Heard

DiscordEvent: TypeAlias = DiscordMessage | DiscordDeletion

DIRECT: Final = "@"


def direct_place(channel_id: int) -> str:
    """The place of a direct chat, as marks name it: a channel id alone does not tell."""
    return f"{DIRECT}{channel_id}"


def heard_of(message: discord.Message) -> Heard[DiscordEvent]:
    """A live message, or one of the history."""
    lifted = _lifted(message)
    return Heard(_place(lifted), lifted.id, lifted)


def heard_edit_of(message: discord.Message) -> Heard[DiscordEvent] | None:
    """None for an update that is no edit: a link that is shown with its title, a pin, a flag. Edits and
    deletions stand in no history; what they leave behind does."""
    if message.edited_at is None:
        return None
    edited = replace(_lifted(message), edited_at_ms=int(message.edited_at.timestamp() * 1000))
    return Heard(_place(edited), "", edited)


def heard_deletion(channel_id: int, message_id: int, *, is_direct: bool) -> Heard[DiscordEvent]:
    """A message is gone."""
    place = direct_place(channel_id) if is_direct else str(channel_id)
    return Heard(place, "", DiscordDeletion(str(channel_id), str(message_id)))


def _lifted(message: discord.Message) -> DiscordMessage:
    role = message.guild.self_role if message.guild else None
    return lift(message, str(role.id) if role else None)


def _place(message: DiscordMessage) -> str:
    return message.channel_id if message.guild_id else direct_place(int(message.channel_id))
