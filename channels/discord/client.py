"""The connection to Discord's gateway: the SDK's client reduced to our needs, its sessions and its shards."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from typing import Any, ClassVar, Final, Protocol

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route
from discord.webhook import async_

from channels.core.backfill import RawMessage
from channels.core.message import Raw, canonical, integer, mapping, text
from channels.discord import limits
from channels.discord.events import DiscordEvent, raw_deletion_of, raw_edit_of, raw_message_of, whole, whole_answer

log = logging.getLogger(__name__)

# The gateway session of an earlier client, and the messages it never heard.
#
# A bot cannot list its direct chats, so the history alone never finds the first words that a stranger wrote while
# nobody was connected. The gateway remembers them for some minutes, for a client that takes the session up again; the
# SDK cannot do that for another process. So the session is on record, and before a new client begins its own, the old
# one is resumed once, only to learn in which direct chats something was said. Their messages are then read from the
# history like all others.

_API_VERSION = 10


class _Op(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    RESUME = 6
    RECONNECT = 7
    INVALID_SESSION = 9
    HELLO = 10


@dataclass(frozen=True, slots=True)
class PreviousSession:
    """The values that RESUME needs. A `seq` that is a little old only makes the gateway repeat more."""

    session_id: str
    seq: int
    url: str

    def as_text(self) -> str:
        return canonical({"id": self.session_id, "seq": self.seq, "url": self.url})


def left_session(record: str | None) -> PreviousSession | None:
    """Read what `PreviousSession.as_text` wrote; None for a record that is none."""
    try:
        fields = mapping(json.loads(record or "null"))
    except ValueError:
        return None
    session_id, seq, url = text(fields.get("id")), integer(fields.get("seq")), text(fields.get("url"))
    return PreviousSession(session_id, seq, url) if session_id and url and seq is not None else None


@dataclass(frozen=True, slots=True)
class DirectMessage:
    """A message in a direct chat, with just enough fields to find it again."""

    channel_id: int
    message_id: str


async def missed_direct_messages(left: PreviousSession, token: str, *, proxy: str = "") -> Sequence[DirectMessage]:
    """Collect the direct messages that this session has not heard; none if the gateway has forgotten it.
    Never raises."""
    words: list[DirectMessage] = []
    try:
        async with asyncio.timeout(limits.LEFT_SESSION_TIMEOUT_S), aiohttp.ClientSession() as http:
            async for event in _missed_events(http, left, token, proxy):
                word = _direct_word(event)
                if word is not None:
                    words.append(word)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        log.info("discord: the last session could not be taken up again: %s", type(error).__name__)
    return words


async def _missed_events(
    http: aiohttp.ClientSession, left: PreviousSession, token: str, proxy: str
) -> AsyncIterator[Raw]:
    """Yield the dispatches that RESUME repeats. The session is ended afterwards."""
    url = yarl.URL(left.url).update_query(v=str(_API_VERSION), encoding="json")
    async with http.ws_connect(url, max_msg_size=0, proxy=proxy or None) as socket:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            event = mapping(json.loads(message.data))
            match event.get("op"):
                case _Op.HELLO:
                    resume = {"token": token, "session_id": left.session_id, "seq": left.seq}
                    await socket.send_json({"op": _Op.RESUME, "d": resume})
                case _Op.HEARTBEAT:
                    await socket.send_json({"op": _Op.HEARTBEAT, "d": left.seq})
                case _Op.DISPATCH if event.get("t") == "RESUMED":
                    return
                case _Op.DISPATCH:
                    yield event
                case _Op.INVALID_SESSION | _Op.RECONNECT:
                    log.info("discord: the gateway has forgotten the last session")
                    return


def _direct_word(event: Raw) -> DirectMessage | None:
    """Return the direct message of an event. None for a guild's message, which names its guild: the history finds it by
    itself."""
    data = mapping(event.get("d"))
    if event.get("t") != "MESSAGE_CREATE" or data.get("guild_id") is not None:
        return None
    channel_id, message_id = text(data.get("channel_id")), text(data.get("id"))
    return DirectMessage(int(channel_id), message_id) if channel_id.isdecimal() and message_id.isdecimal() else None


_READY: Final = "READY"  # without it there is no session: whatever is wrong with it, another client is built


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A part of a history, newest first, without what the SDK cannot read."""

    messages: Sequence[discord.Message]
    is_last: bool


class GatewayClient(discord.Client):
    """One session with the gateway. `heard` gets each event, `interacted` each interaction; `began` is called with
    the shard of each session that is not a resume, before any message of it is heard."""

    RESUMABLE: ClassVar = limits.CLOSE_RESUMABLE

    def __init__(
        self,
        *,
        heard: Callable[[RawMessage[DiscordEvent]], object],
        interacted: Callable[[discord.Interaction], object],
        began: Callable[[int], None],
        silence_s: float,
        proxy: str = "",
        **sharding: Any,
    ) -> None:
        """Take the link for dead after `silence_s` without a frame; the SDK then resumes on a new one."""
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
        parsers.update(
            {event: _cancelling_reliably(event, parse) for event, parse in parsers.items() if event != _READY}
        )
        self.http.request = _completing(self.http.request)  # type: ignore[method-assign]
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
    def session(self) -> PreviousSession | None:
        """Return what another client would need to take this session up, None before it has begun."""
        return self._left(self._socket)

    @staticmethod
    def _left(ws: DiscordWebSocket | None) -> PreviousSession | None:
        if ws is None or ws.session_id is None or ws.sequence is None:
            return None
        return PreviousSession(ws.session_id, ws.sequence, str(ws.gateway))

    @property
    def _socket(self) -> DiscordWebSocket | None:
        """Return the socket, which may be missing, though the SDK types it as if it were always there."""
        return self.ws

    async def close(self) -> None:
        """Leave the session so that it can be taken up again; the SDK's way of closing ends it."""
        await self._leave()
        if (announcing := self._connection._ready_task) is not None:
            announcing.cancel()  # a second after READY it tells a client of it, which is closed by then
        await super().close()

    async def probe(self) -> None:
        """Probe the connection, as `Heartbeating` says. A socket that is closing needs no probe."""
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
        """Count the losses, as `Heartbeating` says, of the connection that was lost most often."""
        return max(self._losses.values(), default=0)

    @property
    def lost_for_s(self) -> float:
        """Return the seconds since the gateway was lost, 0 while it is there."""
        now_s = asyncio.get_running_loop().time()
        return max((now_s - at_s for at_s in self._lost_at_s.values()), default=0.0)

    async def read_back(
        self, channel: discord.abc.Messageable, *, after: int | None = None, before: int | None = None, limit: int
    ) -> HistoryPage:
        """Read back the messages of a place. Raises what the SDK raises."""
        place = await channel._get_channel()
        told = await self.http.logs_from(place.id, limit, after=after, before=before)
        messages = [message for each in told if (message := self._understood(place, each)) is not None]
        return HistoryPage(messages, is_last=len(told) < limit)

    def _understood(self, place: Any, told: Any) -> discord.Message | None:
        try:
            return self._connection.create_message(channel=place, data=told)
        except Exception:  # named boundary, adapter callback: one that nobody can read does not hide the others
            log.exception("discord: a message of the history cannot be understood")
            return None

    async def on_message(self, message: discord.Message) -> None:
        """Hand the message on without an await: the SDK makes a task of each event, and their order is the order of
        messages."""
        self._heard(raw_message_of(message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        edit = raw_edit_of(payload.message)
        if edit is not None:
            self._heard(edit)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        self._heard(raw_deletion_of(payload.channel_id, payload.message_id, is_direct=payload.guild_id is None))

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        for message_id in sorted(payload.message_ids):
            self._heard(raw_deletion_of(payload.channel_id, message_id, is_direct=payload.guild_id is None))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self._interacted(interaction)

    async def on_connect(self) -> None:
        """Note the READY of the gateway. The SDK calls itself ready only a second later, and has handed out messages by
        then."""
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


def _completing(request: Callable[..., Awaitable[Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wrap the SDK's call of the REST API and complete the answers: the SDK takes an answer that it cannot read for a
    message that was not sent."""

    async def asked(*what: Any, **how: Any) -> Any:
        return whole_answer(await request(*what, **how))

    return asked


def _cancelling_reliably(event: str, parse: Callable[[Any], object]) -> Callable[[Any], None]:
    """Wrap the SDK's reading of an event. An event that it cannot read is lost, but that does not end the session."""

    def understand(told: object) -> None:
        try:
            complete = whole(event, told)
            if complete is not None:
                parse(complete)
        except Exception:  # named boundary, adapter callback: Discord may say tomorrow what nobody knows today
            log.exception("discord: an event %s cannot be understood", event)

    return understand


# The address of one bot's Discord: its gateway, the number of connections, and whether a new one is allowed.
#
# discord.py is pointed at its servers through two class attributes, which it reads when a request or a connection is
# made; one process therefore speaks to one Discord.

_ASK_TIMEOUT: Final = aiohttp.ClientTimeout(total=10)
_USER_AGENT: Final = f"DiscordBot (https://discordpy.readthedocs.io, {discord.__version__})"
"""Discord asks for an address and a version, and may refuse other clients."""


@dataclass(frozen=True, slots=True)
class DiscordEndpoint:
    """The address of Discord. An empty `gateway_url` means the one that the API names. `shards`: 0 for as many as it
    recommends."""

    token: str = field(repr=False)
    api_base: str
    gateway_url: str
    shards: int = 0
    public_key: str = ""
    """Of the application whose interactions come by HTTP; empty where they come over the gateway."""

    proxy: str = field(default="", repr=False)
    bots: frozenset[str] = frozenset()
    """The other bots that are heard."""

    begins_threads: bool = False
    """A mention in a channel begins a thread."""

    @property
    def lease(self) -> str:
        """Name the right to listen: one per token, which the name does not give away."""
        return f"gateway:discord:{hashlib.blake2s(self.token.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Start:
    """The answer of `GET /gateway/bot` about new sessions. `remaining` is None where nobody counts them."""

    url: str = ""
    shards: int = 1
    remaining: int | None = None
    reset_after_s: float = 0.0
    concurrency: int = 1


class NoSessionLeft(Exception):
    """The sessions of the day are used up: Discord resets the token of a bot that begins one more."""

    def __init__(self, reset_after_s: float) -> None:
        super().__init__("Discord allows no new session today")
        self.reset_after_s = reset_after_s


def point_rest_at(api_base: str) -> None:
    """Point all requests from now on at the REST API at `api_base`, and read its answers."""
    Route.BASE = api_base
    discord.http.json_or_text = async_.json_or_text = _json_or_text  # type: ignore[attr-defined]


async def _json_or_text(response: aiohttp.ClientResponse) -> Any:
    """Read an answer in place of the SDK, which takes JSON for text where its media type names a charset, and looks for
    the seconds of a 429 in the body only if a proxy of Discord's has passed it on. Raises `discord.RateLimited`."""
    said = await response.text(encoding="utf-8")
    if not said or response.content_type != "application/json":
        return said
    told = json.loads(said)
    wait_s = mapping(told).get("retry_after")
    is_bare = response.headers.keys().isdisjoint({"Via", "Retry-After"})
    if response.status == HTTPStatus.TOO_MANY_REQUESTS and is_bare and isinstance(wait_s, int | float):
        raise discord.RateLimited(wait_s)
    return told


async def prepare(endpoint: DiscordEndpoint) -> Start:
    """Point the SDK at its servers; what the API says of sessions. Raises `NoSessionLeft`, and what aiohttp raises."""
    point_rest_at(endpoint.api_base)
    async with aiohttp.ClientSession(timeout=_ASK_TIMEOUT, headers={"User-Agent": _USER_AGENT}) as session:
        said = await _asked(session, endpoint, "/gateway/bot")
        limit = mapping(said.get("session_start_limit"))
        start = Start(
            url=text(said.get("url")),
            shards=max(1, integer(said.get("shards")) or 1),
            remaining=integer(limit.get("remaining")),
            reset_after_s=(integer(limit.get("reset_after")) or 0) / 1000,
            concurrency=max(1, integer(limit.get("max_concurrency")) or 1),
        )
        url = endpoint.gateway_url or start.url or text((await _asked(session, endpoint, "/gateway")).get("url"))
    if url:
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url)
    shards = endpoint.shards or start.shards
    if start.remaining is not None and start.remaining < shards:
        raise NoSessionLeft(start.reset_after_s)
    return Start(url, shards, start.remaining, start.reset_after_s, start.concurrency)


async def _asked(session: aiohttp.ClientSession, endpoint: DiscordEndpoint, path: str) -> Raw:
    """Ask Discord and return the answer; an empty one when Discord refuses, since the login will say why."""
    headers = {"Authorization": f"Bot {endpoint.token}"}
    async with session.get(f"{endpoint.api_base}{path}", headers=headers, proxy=endpoint.proxy or None) as answer:
        if not answer.ok:
            return {}
        found: Any = await answer.json(content_type=None)
        return mapping(found)


# The pulse of a gateway connection: probed often, so that silence is noticed soon; lost connections are counted.
#
# discord.py sends a heartbeat every 41 seconds and does not notice a missing answer; only when not a single frame has
# come for `silence_s` does it take up the session on a new socket. And it comes back at once, without any pause, to a
# gateway that lets it in and drops it again: dozens of times a second, an IDENTIFY each, of which a day has a thousand.


class GatewayUnstable(Exception):
    """The gateway lets us in and drops us, again and again."""


class Heartbeating(Protocol):
    """The heartbeat of a client."""

    @property
    def losses(self) -> int:
        """Count how often the gateway was lost so far."""

    async def probe(self) -> None:
        """Send a heartbeat, which the gateway answers."""


async def watch_heartbeat(client: Heartbeating, *, every_s: float) -> None:
    """Probe until cancelled. Raises `GatewayUnstable` when the gateway is lost more often than networks explain."""
    loop = asyncio.get_running_loop()
    probed_s = counted_s = loop.time()
    losses = client.losses
    while client.losses - losses <= limits.LOSSES_MAX:
        await asyncio.sleep(min(limits.WATCH_EVERY_S, every_s))
        now_s = loop.time()
        if now_s - probed_s >= every_s:
            probed_s = now_s
            await client.probe()
        if now_s - counted_s >= limits.LOSSES_WITHIN_S:
            counted_s, losses = now_s, client.losses
    raise GatewayUnstable


# The SDK's client over several connections: each has some of the bot's servers, the first all direct chats.
#
# After trouble the SDK begins a new session where it could have resumed the old one, so each of them counts as one that
# began: messages in between are in the history only.

IDENTIFY_EVERY_S: Final = 5.0  # within one of the rows that may identify side by side


class ShardedClient(GatewayClient, discord.AutoShardedClient):
    """As many sessions with the gateway as `start` says."""

    def __init__(self, start: Start, **parts: Any) -> None:
        super().__init__(**parts, shard_count=start.shards)
        self._concurrency = start.concurrency
        self._count = start.shards
        self._known: set[int] = set()
        self._identified_at_s: dict[int, float] = {}

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait before identifying: Discord lets so many connections identify at a time, and the next ones five seconds
        later."""
        row = (shard_id or 0) % self._concurrency
        now_s = asyncio.get_running_loop().time()
        at_s = max(now_s, self._identified_at_s.get(row, now_s - IDENTIFY_EVERY_S) + IDENTIFY_EVERY_S)
        self._identified_at_s[row] = at_s
        await asyncio.sleep(at_s - now_s)

    @property
    def session(self) -> PreviousSession | None:
        """Return the session of the first connection: only there are direct chats, which no history finds."""
        first = self.shards.get(0)
        return None if first is None else self._left(first._parent.ws)

    @property
    def _open_sockets(self) -> Sequence[DiscordWebSocket]:
        return [shard._parent.ws for shard in self.shards.values() if shard._parent.ws.open]

    async def on_shard_connect(self, shard_id: int) -> None:
        self._known.discard(shard_id)
        self._has_begun(shard_id)

    async def on_shard_ready(self, shard_id: int) -> None:
        """Note that one shard is ready. The SDK says only once that all are ready, even if single ones drop out and
        return."""
        self._known.add(shard_id)
        self._is_well(shard_id)
        if len(self._known) == self._count:
            self._guilds_known.set()

    async def on_shard_resumed(self, shard_id: int) -> None:
        self._is_well(shard_id)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        self._is_lost(shard_id)

    async def _on_any(self) -> None:
        """Do nothing: shards are noted one by one."""

    on_connect = on_ready = on_resumed = on_disconnect = _on_any
