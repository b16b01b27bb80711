"""The SDK's client, made small: no message, member or presence caches, and only the events we hear."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

import aiohttp
import discord
from discord.gateway import DiscordWebSocket

from channels.discord import limits
from channels.discord.hearing import DiscordEvent, heard_deletion, heard_edit_of, heard_of
from channels.discord.left_session import LeftSession
from channels.discord.payloads import whole, whole_message
from channels.inbound.listening import Heard

log = logging.getLogger(__name__)

_READY: Final = "READY"  # without it there is no session: whatever is wrong with it, another client is built


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a history, newest first, without what the SDK cannot read."""

    messages: Sequence[discord.Message]
    is_last: bool


class GatewayClient(discord.Client):
    """One session with the gateway. `heard` gets each event, `interacted` each interaction, `began` is told of each
    session that is not a resume and of its shard, before any message of it is heard."""

    RESUMABLE: ClassVar = limits.CLOSE_RESUMABLE

    def __init__(
        self,
        *,
        heard: Callable[[Heard[DiscordEvent]], object],
        interacted: Callable[[discord.Interaction], object],
        began: Callable[[int], None],
        silence_s: float,
        proxy: str = "",
        **sharding: Any,
    ) -> None:
        """After `silence_s` without a frame the SDK takes the link for dead and resumes on a new one."""
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions.none(),
            max_ratelimit_timeout=limits.RATE_LIMIT_WAIT_MAX_S,
            guild_ready_timeout=limits.GUILDS_WITHIN_S,
            heartbeat_timeout=silence_s,
            enable_debug_events=False,
            proxy=proxy or None,
            **sharding,
        )
        parsers = self._connection.parsers
        parsers.update({event: _heedful(event, parse) for event, parse in parsers.items() if event != _READY})
        self._heard = heard
        self._interacted = interacted
        self._began = began
        self._lost_at_s: dict[int, float] = {}  # by shard
        self._losses: Counter[int] = Counter()  # likewise
        self._guilds_known = asyncio.Event()

    async def until_guilds_known(self) -> None:
        """Wait until the session has told of the guilds. Raises `TimeoutError`."""
        async with asyncio.timeout(limits.READY_TIMEOUT_S):
            await self._guilds_known.wait()

    @property
    def session(self) -> LeftSession | None:
        """What another client would need to take this session up, None before it has begun."""
        return self._left(self._socket)

    @staticmethod
    def _left(ws: DiscordWebSocket | None) -> LeftSession | None:
        if ws is None or ws.session_id is None or ws.sequence is None:
            return None
        return LeftSession(ws.session_id, ws.sequence, str(ws.gateway))

    @property
    def _socket(self) -> DiscordWebSocket | None:
        """The SDK types its socket as if it were always there."""
        return self.ws

    async def close(self) -> None:
        """Leave the session so that it can be taken up again; the SDK's way of closing ends it."""
        await self._leave()
        await super().close()

    async def probe(self) -> None:
        """As `Pulsing` has it. A socket that is closing needs no probe."""
        for ws in self._open_sockets:
            with contextlib.suppress(OSError, aiohttp.ClientError, discord.ConnectionClosed):
                await ws.send_heartbeat({"op": ws.HEARTBEAT, "d": ws.sequence})

    async def _leave(self) -> None:
        for ws in self._open_sockets:
            await ws.close(code=self.RESUMABLE)

    @property
    def _open_sockets(self) -> Sequence[DiscordWebSocket]:
        return [self.ws] if self._socket is not None and self._socket.open else []

    @property
    def losses(self) -> int:
        """As `Pulsing` has it: of the connection that was lost most often."""
        return max(self._losses.values(), default=0)

    @property
    def lost_for_s(self) -> float:
        """Seconds since the gateway was lost, 0 while it is there."""
        now_s = asyncio.get_running_loop().time()
        return max((now_s - at_s for at_s in self._lost_at_s.values()), default=0.0)

    async def read_back(
        self, channel: discord.abc.Messageable, *, after: int | None = None, before: int | None = None, limit: int
    ) -> Page:
        """What was said in a place. Raises what the SDK raises."""
        place = await channel._get_channel()
        told = await self.http.logs_from(place.id, limit, after=after, before=before)
        messages = [message for each in told if (message := self._understood(place, each)) is not None]
        return Page(messages, is_last=len(told) < limit)

    def _understood(self, place: Any, told: Any) -> discord.Message | None:
        try:
            return self._connection.create_message(channel=place, data=cast(Any, whole_message(told)))
        except Exception:  # named boundary, adapter callback: one that nobody can read does not hide the others
            log.exception("discord: a message of the history cannot be understood")
            return None

    async def on_message(self, message: discord.Message) -> None:
        """Nothing is awaited here: the SDK makes a task of each event, and their order is the order of messages."""
        self._heard(heard_of(message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        edit = heard_edit_of(payload.message)
        if edit is not None:
            self._heard(edit)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        self._heard(heard_deletion(payload.channel_id, payload.message_id, is_direct=payload.guild_id is None))

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        for message_id in sorted(payload.message_ids):
            self._heard(heard_deletion(payload.channel_id, message_id, is_direct=payload.guild_id is None))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self._interacted(interaction)

    async def on_connect(self) -> None:
        """READY. The SDK calls itself ready only a second later, and has handed out messages by then."""
        self._has_begun(0)

    async def on_ready(self) -> None:
        self._is_well(0)
        self._guilds_known.set()

    async def on_resumed(self) -> None:
        self._is_well(0)

    async def on_disconnect(self) -> None:
        self._is_lost(0)

    def _has_begun(self, shard_id: int) -> None:
        self._guilds_known.clear()
        self._began(shard_id)

    def _is_well(self, shard_id: int) -> None:
        self._lost_at_s.pop(shard_id, None)

    def _is_lost(self, shard_id: int) -> None:
        self._losses[shard_id] += 1
        self._lost_at_s.setdefault(shard_id, asyncio.get_running_loop().time())

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        log.exception("discord: %s failed", event_method)


def _heedful(event: str, parse: Callable[[Any], object]) -> Callable[[Any], None]:
    """The SDK's way to read an event. One that it cannot read we do not hear; that is not the end of the session."""

    def understand(told: object) -> None:
        try:
            complete = whole(event, told)
            if complete is not None:
                parse(complete)
        except Exception:  # named boundary, adapter callback: Discord may say tomorrow what nobody knows today
            log.exception("discord: an event %s cannot be understood", event)

    return understand
