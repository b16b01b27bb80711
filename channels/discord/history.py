"""Messages read back: those that nobody heard, and those of a thread before a message.

Guild channels and threads name their last message when a session begins, so only those that moved are read. Direct
chats cannot be listed by a bot; those we have a cursor for are read, and their cursors say that they are direct
chats, because a channel id alone does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

import aiohttp
import discord

from channels.core.backfill import HistoryUnavailable, MessageOrder, ReadCursors
from channels.core.message import Incoming, Raw, RawQuote, mapping
from channels.discord import limits
from channels.discord.client import GatewayClient
from channels.discord.events import DIRECT, THREADS, lift
from channels.discord.normalize import said
from gateway.bounded_dict import BoundedDict
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

# Discord's ids carry their time: `(id >> 22) + EPOCH_MS` (developer documentation, "Snowflakes"). Pure.

EPOCH_MS: Final = 1_420_070_400_000
_TIME_SHIFT: Final = 22


def snowflake_at(moment_ms: int) -> int:
    """Return the smallest id of that millisecond: everything later is greater."""
    return max(0, moment_ms - EPOCH_MS) << _TIME_SHIFT


def _just_before(snowflake: str) -> str:
    return str(max(0, int(snowflake) - 1))


ORDER: Final = MessageOrder(key=int, before=_just_before)


class DiscordHistory:
    """The history that one bot may see."""

    def __init__(self, client: GatewayClient, cursors: ReadCursors, clock: Clock) -> None:
        self._client = client
        self._cursors = cursors
        self._clock = clock

    async def rooms(self) -> Sequence[str]:
        """List the rooms where something may have been said since the cursors. Raises `HistoryUnavailable`."""
        try:
            await self._client.until_guilds_known()
        except TimeoutError as error:
            raise HistoryUnavailable("the gateway does not tell of its guilds") from error
        rooms = [*self._moved(), *self._unlisted()]
        if len(rooms) > limits.HISTORY_PLACES_MAX:
            log.warning("discord: of %d places only %d are read back", len(rooms), limits.HISTORY_PLACES_MAX)
        return rooms[: limits.HISTORY_PLACES_MAX]

    async def missed(self, room: str) -> Sequence[discord.Message]:
        """Read the messages of a place after its cursor, oldest first: the newest HISTORY_MESSAGES_MAX if there are
        more.

        None for a place that is closed to us. Raises `HistoryUnavailable`."""
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
        """List guild channels and threads whose last message is newer than their cursor."""
        moved: list[str] = []
        for guild in self._client.guilds:
            for channel in (*guild.channels, *guild.threads):
                last = getattr(channel, "last_message_id", None)
                if last is not None and last > self._mark(str(channel.id)):
                    moved.append(str(channel.id))
        return moved

    def _unlisted(self) -> list[str]:
        """List the places of our cursors that no guild lists, the most recent first: direct chats, archived threads."""
        places = reversed(self._cursors.places)
        return [place for place in places if place.startswith(DIRECT) or self._client.get_channel(int(place)) is None]

    def _mark(self, place: str) -> int:
        oldest = snowflake_at(self._clock.now_ms() - limits.HISTORY_AGE_MAX_S * 1000)
        return max(int(self._cursors.of(place) or 0), oldest)


# The earlier messages, of people and of us, in a thread or in a post of a forum.

Origin: TypeAlias = tuple[str | None, str | None]
"""The ids of a thread's parent and of who began it."""


class DiscordThreadContext:
    """The earlier messages of threads, for one bot."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._origins: BoundedDict[str, Origin] = BoundedDict(limits.ORIGINS_MAX)

    async def origin_of(self, channel_id: str) -> Origin:
        """Return the parent and the creator of a thread that the gateway has not told of (somebody woke it, or called
        us into it); empty for a channel, and where Discord does not say. Asked once."""
        if channel_id not in self._origins:
            try:
                async with asyncio.timeout(limits.THREAD_WAIT_S):
                    told = mapping(await self._client.http.get_channel(int(channel_id)))
            except (discord.DiscordException, aiohttp.ClientError, OSError):
                return None, None
            is_thread = told.get("type") in THREADS
            self._origins[channel_id] = (_id(told, "parent_id"), _id(told, "owner_id")) if is_thread else (None, None)
        return self._origins[channel_id]

    async def before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """Read how the thread of a message began, and what was said last in it, oldest first. Raises what the SDK
        raises."""
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
