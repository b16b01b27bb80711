"""What was said while nobody listened: a new session of the gateway tells nothing of it, the history does.

Guild channels and threads name their last message when a session begins, so only those that moved are
read. Direct chats cannot be listed by a bot; those we have a mark for are read, and their marks say that
they are direct chats, because a channel id alone does not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import aiohttp
import discord

from channels.discord import limits
from channels.discord.client import GatewayClient
from channels.discord.hearing import DIRECT
from channels.discord.snowflakes import snowflake_at
from channels.inbound.listening import HistoryUnavailable
from channels.inbound.marks import Marks
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)


class History:
    """Reads back what one bot may see."""

    def __init__(self, client: GatewayClient, marks: Marks, clock: Clock) -> None:
        self._client = client
        self._marks = marks
        self._clock = clock

    async def rooms(self) -> Sequence[str]:
        """Where something may have been said since the marks. Raises `HistoryUnavailable`."""
        try:
            await self._client.until_guilds_known()
        except TimeoutError as error:
            raise HistoryUnavailable("the gateway does not tell of its guilds") from error
        rooms = [*self._moved(), *self._unlisted()]
        if len(rooms) > limits.HISTORY_PLACES_MAX:
            log.warning("discord: of %d places only %d are read back", len(rooms), limits.HISTORY_PLACES_MAX)
        return rooms[: limits.HISTORY_PLACES_MAX]

    async def missed(self, room: str) -> Sequence[discord.Message]:
        """Messages of a place after its mark, oldest first: the newest HISTORY_MESSAGES_MAX if there are more.

        None for a place that is closed to us. Raises `HistoryUnavailable`.
        """
        try:
            return await self._since(await self._channel(room), self._mark(room), room)
        except (discord.RateLimited, discord.DiscordServerError) as error:
            raise HistoryUnavailable(type(error).__name__) from error
        except discord.HTTPException as error:  # gone, forbidden, or nothing to read in
            log.warning("discord: place %s cannot be read: %s, code %s", room, error.status, error.code)
            return ()
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            raise HistoryUnavailable(type(error).__name__) from error

    async def _channel(self, room: str) -> discord.abc.Messageable | None:
        if room.startswith(DIRECT):
            return self._client.get_partial_messageable(int(room.removeprefix(DIRECT)))
        channel = self._client.get_channel(int(room)) or await self._client.fetch_channel(int(room))
        return channel if isinstance(channel, discord.abc.Messageable) else None

    async def _since(self, channel: discord.abc.Messageable | None, mark: int, room: str) -> Sequence[discord.Message]:
        if channel is None:
            return ()
        page = await self._client.read_back(channel, after=mark, limit=limits.HISTORY_PAGE)
        if page.is_last:
            return page.messages[::-1]
        return await self._newest(channel, mark, room)

    async def _newest(self, channel: discord.abc.Messageable, mark: int, room: str) -> Sequence[discord.Message]:
        found: list[discord.Message] = []
        while len(found) < limits.HISTORY_MESSAGES_MAX:
            before = found[-1].id if found else None
            page = await self._client.read_back(channel, before=before, limit=limits.HISTORY_PAGE)
            newer = [message for message in page.messages if message.id > mark]
            found.extend(newer)
            if page.is_last or len(newer) < len(page.messages) or not newer:
                return found[::-1]
        log.warning("discord: of what was missed in place %s only the newest %d are read", room, len(found))
        return found[::-1]

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
        places = reversed(self._marks.places)
        return [place for place in places if place.startswith(DIRECT) or self._client.get_channel(int(place)) is None]

    def _mark(self, place: str) -> int:
        oldest = snowflake_at(self._clock.now_ms() - limits.HISTORY_AGE_MAX_S * 1000)
        return max(int(self._marks.of(place) or 0), oldest)
