"""The name of a thread that we began: the title of the conversation in it."""

from __future__ import annotations

import discord

from channels.discord import limits
from channels.raw import Raw, mapping, text
from channels.text.graphemes import clipped
from gateway.contracts.errors import SendFailed
from gateway.contracts.messages import CleanText


async def lacks_name(client: discord.Client, thread_id: str, title: CleanText) -> bool:
    """Whether it is ours to rename, and bears another name: not where somebody else began a thread from the message
    that called us. Raises what the SDK raises, and `SendFailed` while nobody may change it."""
    shown: Raw = mapping(await client.http.get_channel(int(thread_id)))
    if client.user is None or text(shown.get("owner_id")) != str(client.user.id):
        return False
    if mapping(shown.get("thread_metadata")).get("archived"):
        raise SendFailed("the thread is archived until somebody writes in it")
    return text(shown.get("name")) != _name(title)


async def rename(client: discord.Client, thread_id: str, title: CleanText) -> None:
    """Raises what the SDK raises."""
    await client.http.edit_channel(int(thread_id), name=_name(title))


def _name(title: CleanText) -> str:
    return clipped(title, limits.THREAD_NAME_UNITS_MAX)
