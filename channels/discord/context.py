"""What was said in a thread or in a post of a forum before a message, by people and by us."""

from __future__ import annotations

import discord

from channels.discord import limits
from channels.discord.lifting import lift
from channels.discord.quotes import said
from channels.normalized import Incoming, RawQuote


class ThreadContext:
    """Reads threads back, for one bot."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client

    async def before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """How the thread of a message began, and what was said last in it, oldest first. Raises what the SDK raises."""
        thread = self._client.get_partial_messageable(int(incoming.place[-1]))
        message = discord.Object(int(incoming.id.rpartition(":")[2]))
        newest = [each async for each in thread.history(limit=limits.THREAD_QUOTES_MAX, before=message)][::-1]
        if len(newest) == limits.THREAD_QUOTES_MAX:
            first = [each async for each in thread.history(limit=1, after=discord.Object(0), oldest_first=True)]
            newest = [*first, *(each for each in newest[1:] if each.id not in {one.id for one in first})]
        return tuple(said(lift(each, None) for each in newest))
