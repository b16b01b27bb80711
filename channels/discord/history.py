"""What was said while nobody listened: a new session of the gateway tells nothing of it, the history does.

Guild channels and threads name their last message when a session begins, so only those that moved are
read. Direct chats cannot be listed by a bot; those we have a mark for are read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import aiohttp
import discord

from channels.discord import limits
from channels.discord.snowflakes import snowflake_at
from channels.listening import HistoryUnavailable
from channels.marks import Marks
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)


class History:
    """Reads back what one bot may see."""

    def __init__(self, client: discord.Client, marks: Marks, clock: Clock) -> None:
        self._client = client
        self._marks = marks
        self._clock = clock

    async def missed(self) -> AsyncIterator[discord.Message]:
        """Messages after the marks, a place at a time, oldest first. Raises `HistoryUnavailable`."""
        marks = {place: self._mark(place) for place in (*self._moved(), *self._unlisted())}
        if len(marks) > limits.HISTORY_PLACES_MAX:
            log.warning("discord: of %d places %d are read back", len(marks), limits.HISTORY_PLACES_MAX)
        for place, mark in list(marks.items())[: limits.HISTORY_PLACES_MAX]:
            try:
                channel = self._client.get_channel(int(place)) or await self._client.fetch_channel(int(place))
                if isinstance(channel, discord.abc.Messageable):
                    async for message in channel.history(
                        after=discord.Object(mark), oldest_first=True, limit=limits.HISTORY_MESSAGES_MAX
                    ):
                        yield message
            except (discord.Forbidden, discord.NotFound):
                log.info("discord: place %s cannot be read any more", place)
            except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
                raise HistoryUnavailable(type(error).__name__) from error

    def _moved(self) -> list[str]:
        """Guild channels and threads whose last message is newer than their mark."""
        moved: list[str] = []
        for guild in self._client.guilds:
            for channel in (*guild.channels, *guild.threads):
                last = getattr(channel, "last_message_id", None)
                if last is not None and last > self._mark(str(channel.id)):
                    moved.append(str(channel.id))
        return moved

    def _unlisted(self) -> list[str]:
        """Places of our marks that no guild lists, the most recent first: direct chats, archived threads."""
        return [
            place
            for place in reversed(self._marks.places)
            if self._client.get_channel(int(place)) is None
            or isinstance(self._client.get_channel(int(place)), discord.DMChannel)
        ]

    def _mark(self, place: str) -> int:
        oldest = snowflake_at(self._clock.now_ms() - limits.HISTORY_AGE_MAX_S * 1000)
        return max(int(self._marks.of(place) or 0), oldest)
