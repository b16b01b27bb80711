"""The supervised connection of one bot: lease, sessions, read cursors, missed messages.

The SDK gives up in many ways (a first connect that is refused, an event it cannot parse), and waits long in others;
so each session is one client, watched from outside, and the next one is built from nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp
import discord

from channels.core.adapter import CONNECTED, AdapterDeps, AdapterTasks, InboundHandler, PlatformConnection
from channels.core.backfill import LAST_WORD_S, Listener, RawMessage, ReadCursors
from channels.core.message import Addressing, Ignored, Incoming, Retraction
from channels.core.places import JoinedThreads, ThreadContextLoader
from channels.discord import limits
from channels.discord.client import (
    IDENTIFY_EVERY_S,
    DiscordEndpoint,
    GatewayClient,
    NoSessionLeft,
    ShardedClient,
    Start,
    left_session,
    missed_direct_messages,
    point_rest_at,
    prepare,
    watch_heartbeat,
)
from channels.discord.errors import CLOSED_FOR_GOOD, INTENT_MISSING, REJECTED, SHARDS_WRONG
from channels.discord.events import DiscordEvent, direct_place, raw_message_of
from channels.discord.history import ORDER, DiscordHistory, DiscordThreadContext, snowflake_at
from channels.discord.interactions import InteractionHandler, InteractionTokens, InteractionWebhook
from channels.discord.normalize import DiscordDeletion, DiscordIdentity, DiscordMessage, normalize, retraction_of
from channels.discord.sending import ThreadOpener
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.limits import POLLER_LEASE_TTL_S
from gateway.tasks import Backoff, cancel_reliably, first_to_end

log = logging.getLogger(__name__)

# Discord's side of listening: messages as plain values, which of them are ours.


@dataclass(eq=False, repr=False)
class DiscordSource:
    """The `channels.core.backfill.MessageSource` of one bot."""

    me: DiscordIdentity
    history: DiscordHistory
    threads: JoinedThreads
    context: DiscordThreadContext
    context_loader: ThreadContextLoader
    thread_opener: ThreadOpener

    async def rooms(self) -> Sequence[str]:
        return await self.history.rooms()

    async def missed(self, room: str) -> AsyncIterator[RawMessage[DiscordEvent]]:
        for message in await self.history.missed(room):
            yield raw_message_of(message)

    async def understand(self, heard: RawMessage[DiscordEvent]) -> Incoming | Retraction | None:
        if isinstance(heard.raw, DiscordDeletion):
            return retraction_of(heard.raw, self.me)
        message = await self._with_ownership(heard.raw)
        understood = normalize(message, self.me)
        if isinstance(understood, Incoming) and await self._begins_thread(message, understood):
            understood = normalize(replace(message, begins_thread=True), self.me)
        if isinstance(understood, Ignored):
            log.debug("discord: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return await self._briefed(understood)

    async def taken(self, incoming: Incoming) -> None:
        """Note that the bus has the message: from here on we take part in the thread in which we answer."""
        await self.context_loader.taken(incoming)
        if len(incoming.place) > 1:
            await self.threads.join(*incoming.place[-2:])

    async def _briefed(self, incoming: Incoming) -> Incoming:
        """Add the earlier messages of its thread to a message that is for us."""
        if not (incoming.is_addressed or incoming.is_edit):
            return incoming
        if incoming.place[-1:] == (incoming.id.rpartition(":")[2],):  # a thread begins with it
            self.context_loader.told(incoming)
        before = await self.context_loader.of(incoming, lambda: self.context.before(incoming))
        return replace(incoming, quotes=(*before, *incoming.quotes))

    async def _begins_thread(self, message: DiscordMessage, understood: Incoming) -> bool:
        """Tell whether a message begins a thread: a mention in a channel may; an edit does if its message did."""
        if not (self.thread_opener.is_wanted and message.takes_threads):
            return False
        if understood.is_edit:
            return await self.threads.has_joined(message.channel_id, message.id)
        is_mention = understood.addressing is Addressing.MENTION
        return is_mention and self.thread_opener.may_begin(message.channel_id)

    async def _with_ownership(self, message: DiscordMessage) -> DiscordMessage:
        """Treat a thread that we were called into as one that we opened."""
        if message.guild_id and not message.is_place_known:
            parent_id, owner_id = await self.context.origin_of(message.channel_id)
            message = replace(message, parent_id=parent_id, thread_owner_id=owner_id)
        parent_id = message.parent_id or self.thread_opener.begun.get(message.channel_id)
        message = replace(message, parent_id=parent_id)
        if message.parent_id and await self.threads.has_joined(message.parent_id, message.channel_id):
            return replace(message, thread_owner_id=self.me.user_id)
        return message


class GatewayLost(Exception):
    """The gateway is gone and the SDK takes too long to come back."""


@dataclass(frozen=True, slots=True)
class GatewayTimeouts:
    """The times after which a connection counts as dead. `silence_s` without a single frame, heartbeats among them;
    `lost_s` without a connection; `lease_ttl_s` after our death somebody else connects."""

    silence_s: float = limits.SILENT_AFTER_S
    lost_s: float = limits.LOST_AFTER_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


GATEWAY_TIMEOUTS: Final = GatewayTimeouts()


class DiscordConnection(PlatformConnection):
    """The connection of one bot. `client` is there while it is connected; `ended` is called each time it is not any
    more."""

    def __init__(
        self,
        endpoint: DiscordEndpoint,
        parts: AdapterDeps,
        interaction_tokens: InteractionTokens,
        thread_opener: ThreadOpener,
        *,
        name: str,
        timeouts: GatewayTimeouts,
        ended: Callable[[], None],
    ) -> None:
        logging.getLogger("discord").setLevel(logging.CRITICAL)
        self._endpoint = endpoint
        self._interactions = InteractionWebhook(endpoint.public_key, parts.clock) if endpoint.public_key else None
        calls = self._interactions.called if self._interactions else None
        super().__init__(name, parts, endpoint.lease, lease_ttl_s=timeouts.lease_ttl_s, calls=calls)
        self._interaction_tokens = interaction_tokens
        self._thread_opener = thread_opener
        self._timeouts = timeouts
        self._ended = ended
        self.client: GatewayClient | None = None
        self.user_id = ""

    async def run(self, handler: InboundHandler) -> None:
        """Listen, whenever nobody else does, until cancelled; interactions that come by HTTP are taken by every
        process. Raises `CredentialsRejected`."""
        listening = self._while_holding(lambda: self._stay_connected(handler))
        if self._interactions is None:
            await listening
        else:
            await first_to_end(listening, self._be_called(self._interactions, handler))

    async def _be_called(self, interactions: InteractionWebhook, handler: InboundHandler) -> None:
        """Hear the interactions, by a client that never goes to the gateway. Raises `CredentialsRejected`."""
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        while True:
            point_rest_at(self._endpoint.api_base)
            client = discord.Client(intents=discord.Intents.none(), proxy=self._endpoint.proxy or None)
            background = AdapterTasks(self._name)
            try:
                async with client:
                    await client.login(self._endpoint.token)
                    if client.user is not None:
                        me = DiscordIdentity(str(client.user.id), channel=self._name)
                        heard = InteractionHandler(me, handler, self._interaction_tokens, background).heard
                        with interactions.open(client, heard):
                            await asyncio.Event().wait()
            except discord.LoginFailure as error:
                raise CredentialsRejected(REJECTED) from error
            except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
                log.warning("%s: interactions cannot be taken yet (%s)", self._name, type(error).__name__)
            finally:
                await background.end()
            await asyncio.sleep(backoff.next_s())

    async def _stay_connected(self, handler: InboundHandler) -> None:
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await self._one_session(handler, await prepare(self._endpoint))
                self.state = "not connected"
            except NoSessionLeft as error:
                self.state = str(error)
                log.warning("%s: %s; it is tried again in %.0f s", self._name, error, error.reset_after_s)
                await asyncio.sleep(min(error.reset_after_s, limits.RETRY_CAP_S))
            except discord.LoginFailure as error:
                raise CredentialsRejected(REJECTED) from error
            except discord.PrivilegedIntentsRequired as error:
                raise CredentialsRejected(INTENT_MISSING) from error
            except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                if reason := self._reason_to_give_up(error):
                    raise CredentialsRejected(reason) from error
                self.state = f"not connected ({type(error).__name__})"
                log.warning("%s: %s", self._name, self.state, exc_info=log.isEnabledFor(logging.DEBUG))
            if loop.time() - began_s > limits.HEALTHY_AFTER_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    def _reason_to_give_up(self, error: Exception) -> str:
        """Return the reason to give up, empty for an error that another try may mend. A wrong number of shards is such
        an error, because Discord is asked for the number each time, unless the operator set it."""
        reason = CLOSED_FOR_GOOD.get(error.code, "") if isinstance(error, discord.ConnectionClosed) else ""
        return "" if reason == SHARDS_WRONG and not self._endpoint.shards else reason

    async def _one_session(self, handler: InboundHandler, start: Start) -> None:
        """Run one client, from its login to its end."""
        events = _Events()
        client = self._client(events, start)
        async with client:
            await client.login(self._endpoint.token)
            if client.user is None:
                raise GatewayLost
            self.user_id = str(client.user.id)
            await self._places.introduce(self._name.partition(".")[0], [self.user_id])
            me = DiscordIdentity(self.user_id, channel=self._name, bots=self._endpoint.bots)
            cursors = await self._cursors(me)
            prefix = f"discord:{me.user_id}"
            threads = JoinedThreads(self._positions, prefix)
            context_loader = ThreadContextLoader(self._positions, prefix, wait_s=limits.THREAD_WAIT_S)
            history = DiscordHistory(client, cursors, self._clock)
            source = DiscordSource(
                me, history, threads, DiscordThreadContext(client), context_loader, self._thread_opener
            )
            listener = events.listener = Listener(self._name, handler, cursors, source)
            events.interacted = InteractionHandler(me, handler, self._interaction_tokens, self._background).heard
            self.client = client
            self._ready.set()
            try:
                await first_to_end(
                    cancel_reliably(client.connect()),
                    self._watch(client, start),
                    watch_heartbeat(client, every_s=self._timeouts.silence_s / limits.PROBES_PER_SILENCE),
                    listener.run(),
                    self._keep_session_on_record(client, me),
                )
            finally:
                self._ready.clear()
                self.client = None
                self._ended()
                await self._background.end()

    def _client(self, events: _Events, start: Start) -> GatewayClient:
        parts: dict[str, Any] = {
            "heard": events.heard,
            "interacted": events.interaction,
            "began": events.began,
            "silence_s": self._timeouts.silence_s,
            "proxy": self._endpoint.proxy,
        }
        return GatewayClient(**parts) if start.shards == 1 else ShardedClient(start, **parts)

    async def _cursors(self, me: DiscordIdentity) -> ReadCursors:
        """Load the cursors, and the direct chats that an earlier session heard of after we were gone."""
        cursors = ReadCursors(self._positions, f"discord:{me.user_id}:marks", ORDER)
        if not await cursors.load():
            await cursors.begin(str(snowflake_at(self._clock.now_ms())))
        left = left_session(await self._positions.position(_record_of(me)))
        if left is not None:
            for word in await missed_direct_messages(left, self._endpoint.token, proxy=self._endpoint.proxy):
                cursors.meet(direct_place(word.channel_id), word.message_id)
            await cursors.save()
        return cursors

    async def _keep_session_on_record(self, client: GatewayClient, me: DiscordIdentity) -> None:
        """Keep the session on record, so that the next process may take it up. It moves with each event."""
        known = ""
        try:
            while True:
                await asyncio.sleep(limits.SESSION_RECORD_EVERY_S)
                known = await self._record(client, me, known)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD_S):
                    await self._record(client, me, known)

    async def _record(self, client: GatewayClient, me: DiscordIdentity, known: str) -> str:
        record = client.session.as_text() if client.session else known
        if record != known:
            with contextlib.suppress(BusUnavailable):
                await self._positions.set_position(_record_of(me), record)
                return record
        return known

    async def _watch(self, client: GatewayClient, start: Start) -> None:
        """Raise `GatewayLost` when the gateway stays away, or never tells that a session has begun."""
        began_s = asyncio.get_running_loop().time()
        ready_within_s = limits.READY_TIMEOUT_S + start.shards / start.concurrency * IDENTIFY_EVERY_S
        while client.lost_for_s < self._timeouts.lost_s:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if client.is_ready():
                if self.state != CONNECTED and not client.lost_for_s:
                    log.info("%s: connected as %s", self._name, client.user)
                self.state = "the gateway is being found again" if client.lost_for_s else CONNECTED
            elif asyncio.get_running_loop().time() - began_s > ready_within_s:
                break
        raise GatewayLost


class _Events:
    """A relay of a client's events to its listener, which exists only after the login, as do the handlers of
    interactions."""

    def __init__(self) -> None:
        self.listener: Listener[DiscordEvent] | None = None
        self.interacted: Callable[[discord.Interaction], None] = lambda interaction: None
        self._begun: set[int] = set()

    def heard(self, event: RawMessage[DiscordEvent]) -> None:
        if self.listener is not None:
            self.listener.hear(event)

    def interaction(self, interaction: discord.Interaction) -> None:
        self.interacted(interaction)

    def began(self, shard_id: int) -> None:
        """Note a further session that is no resume: messages in between are in the history only."""
        if self.listener is not None and shard_id in self._begun:
            self.listener.note_gap()
        self._begun.add(shard_id)


def _record_of(me: DiscordIdentity) -> str:
    return f"discord:{me.user_id}:session"
