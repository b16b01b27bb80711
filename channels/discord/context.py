"""What was said in a thread or in a post of a forum before a message, by people and by us."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TypeAlias

import aiohttp
import discord

from channels.discord import limits
from channels.discord.client import GatewayClient
from channels.discord.lifting import lift
from channels.discord.payloads import THREADS
from channels.discord.quotes import said
from channels.normalized import Incoming, RawQuote
from channels.raw import Raw, mapping

Origin: TypeAlias = tuple[str | None, str | None]
"""The ids of a thread's parent and of who began it."""


class ThreadContext:
    """Reads threads back, for one bot."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._origins: OrderedDict[str, Origin] = OrderedDict()

    async def origin_of(self, channel_id: str) -> Origin:
        """The parent and the creator of a thread that the gateway has not told of (somebody woke it, or called us into
        it); nothing of a channel, nor where Discord does not say. Asked once."""
        if channel_id not in self._origins:
            try:
                async with asyncio.timeout(limits.THREAD_WAIT_S):
                    told = mapping(await self._client.http.get_channel(int(channel_id)))
            except (discord.DiscordException, aiohttp.ClientError, OSError):
                return None, None
            is_thread = told.get("type") in THREADS
            self._origins[channel_id] = (_id(told, "parent_id"), _id(told, "owner_id")) if is_thread else (None, None)
            while len(self._origins) > limits.ORIGINS_MAX:
                self._origins.popitem(last=False)
        return self._origins[channel_id]

    async def before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """How the thread of a message began, and what was said last in it, oldest first. Raises what the SDK raises."""
        thread = self._client.get_partial_messageable(int(incoming.place[-1]))
        message_id = int(incoming.id.rpartition(":")[2])
        page = await self._client.read_back(thread, before=message_id, limit=limits.THREAD_QUOTES_MAX)
        newest = page.messages[::-1]
        if not page.is_last:
            first = (await self._client.read_back(thread, after=0, limit=1)).messages
            newest = [*first, *(each for each in newest[1:] if each.id not in {one.id for one in first})]
        return tuple(said(lift(each, None) for each in newest))


def _id(told: Raw, name: str) -> str | None:
    return str(told[name]) if told.get(name) else None
