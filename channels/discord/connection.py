"""One bot's presence at Discord's gateway, under supervision: lease, sessions, marks, what was missed.

The SDK gives up in many ways (a first connect that is refused, an event it cannot parse), and waits long
in others; so each session is one client, watched from outside, and the next one is built from nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import discord

from channels.adapter import CONNECTED, AdapterParts, Door
from channels.backoff import Backoff
from channels.calls import Call, CallAnswer, come_again
from channels.discord import limits
from channels.discord.buttons import Presses
from channels.discord.client import GatewayClient
from channels.discord.context import ThreadContext
from channels.discord.errors import CLOSED_FOR_GOOD, INTENT_MISSING, REJECTED, SHARDS_WRONG
from channels.discord.gateway import Endpoint, NoSessionLeft, Start, point_rest_at, prepare
from channels.discord.hearing import DiscordEvent, direct_place
from channels.discord.history import History
from channels.discord.interactions import Interactions
from channels.discord.invocations import Invocations
from channels.discord.left_session import left_session, unheard_direct_words
from channels.discord.links import Links
from channels.discord.normalize import DiscordIdentity
from channels.discord.openings import Openings
from channels.discord.pulse import keep_pulse
from channels.discord.sharding import IDENTIFY_EVERY_S, ShardedClient
from channels.discord.snowflakes import ORDER, snowflake_at
from channels.discord.source import DiscordSource
from channels.errands import Errands
from channels.inbound.briefing import Briefing
from channels.inbound.listening import LAST_WORD_S, Heard, Listener
from channels.inbound.marks import Marks
from channels.inbound.threads import Threads
from channels.leases import while_holding
from channels.together import first_to_end, heedful
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)


class GatewayLost(Exception):
    """The gateway is gone and the SDK takes too long to come back."""


@dataclass(frozen=True, slots=True)
class Patience:
    """When a connection counts as dead. `silence_s` without a single frame, heartbeats among them;
    `lost_s` without a connection; `lease_ttl_s` after our death somebody else connects."""

    silence_s: float = limits.SILENT_AFTER_S
    lost_s: float = limits.LOST_AFTER_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


PATIENCE: Final = Patience()


class Connection:
    """One bot. `client` is there while it is connected; `ended` is told whenever it is not any more."""

    def __init__(
        self,
        endpoint: Endpoint,
        parts: AdapterParts,
        links: Links,
        openings: Openings,
        *,
        name: str,
        patience: Patience,
        ended: Callable[[], None],
    ) -> None:
        logging.getLogger("discord").setLevel(logging.CRITICAL)
        self._name = name
        self._endpoint = endpoint
        self._interactions = Interactions(endpoint.public_key, parts.clock) if endpoint.public_key else None
        self._positions = parts.positions
        self._leases = parts.leases
        self._places = parts.places
        self._links = links
        self._openings = openings
        self._clock = parts.clock
        self._holder = parts.holder
        self._patience = patience
        self._ended = ended
        self._errands = Errands(name)
        self._ready = asyncio.Event()
        self.client: GatewayClient | None = None
        self.user_id = ""
        self.state = "connecting"

    async def until_ready(self) -> None:
        """Wait until there is a client to send with."""
        await self._ready.wait()

    async def run(self, door: Door) -> None:
        """Listen, whenever nobody else does, until cancelled; interactions that come by HTTP are taken by every
        process. Raises `CredentialsRejected`."""
        listening = while_holding(
            self._leases,
            self._endpoint.lease,
            self._holder,
            lambda: self._stay_connected(door),
            waiting=self._wait_for_lease,
            ttl_s=self._patience.lease_ttl_s,
        )
        if self._interactions is None:
            await listening
        else:
            await first_to_end(listening, self._be_called(self._interactions, door))

    @property
    def is_called(self) -> bool:
        return self._interactions is not None

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it."""
        return come_again() if self._interactions is None else await self._interactions.called(call)

    def _wait_for_lease(self, obstacle: str) -> None:
        self.state = obstacle

    async def _be_called(self, interactions: Interactions, door: Door) -> None:
        """Hear the interactions, by a client that never goes to the gateway. Raises `CredentialsRejected`."""
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        while True:
            point_rest_at(self._endpoint.api_base)
            client = discord.Client(intents=discord.Intents.none(), proxy=self._endpoint.proxy or None)
            errands = Errands(self._name)
            try:
                async with client:
                    await client.login(self._endpoint.token)
                    if client.user is not None:
                        me = DiscordIdentity(str(client.user.id), channel=self._name)
                        with interactions.open(client, self._interacted(me, door, errands)):
                            await asyncio.Event().wait()
            except discord.LoginFailure as error:
                raise CredentialsRejected(REJECTED) from error
            except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
                log.warning("%s: interactions cannot be taken yet (%s)", self._name, type(error).__name__)
            finally:
                await errands.end()
            await asyncio.sleep(backoff.next_s())

    async def _stay_connected(self, door: Door) -> None:
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await self._one_session(door, await prepare(self._endpoint))
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
        """Empty for what another try may mend. How many connections there are to be Discord is asked each time, unless
        the operator said it."""
        reason = CLOSED_FOR_GOOD.get(error.code, "") if isinstance(error, discord.ConnectionClosed) else ""
        return "" if reason == SHARDS_WRONG and not self._endpoint.shards else reason

    async def _one_session(self, door: Door, start: Start) -> None:
        """One client, from its login to its end."""
        events = _Events()
        client = self._client(events, start)
        async with client:
            await client.login(self._endpoint.token)
            if client.user is None:
                raise GatewayLost
            self.user_id = str(client.user.id)
            await self._places.introduce(self._name.partition(".")[0], [self.user_id])
            me = DiscordIdentity(self.user_id, channel=self._name, bots=self._endpoint.bots)
            marks = await self._marks(me)
            threads = Threads(self._positions, f"discord:{me.user_id}")
            briefing = Briefing(Threads(self._positions, f"discord:{me.user_id}:read"), wait_s=limits.THREAD_WAIT_S)
            history = History(client, marks, self._clock)
            source = DiscordSource(me, history, threads, ThreadContext(client), briefing, self._openings)
            listener = events.listener = Listener(self._name, door, marks, source)
            events.interacted = self._interacted(me, door, self._errands)
            self.client = client
            self._ready.set()
            try:
                await first_to_end(
                    heedful(client.connect()),
                    self._watch(client, start),
                    keep_pulse(client, every_s=self._patience.silence_s / limits.PROBES_PER_SILENCE),
                    listener.run(),
                    self._keep_session_on_record(client, me),
                )
            finally:
                self._ready.clear()
                self.client = None
                self._ended()
                await self._errands.end()

    def _client(self, events: _Events, start: Start) -> GatewayClient:
        parts: dict[str, Any] = {
            "heard": events.heard,
            "interacted": events.interaction,
            "began": events.began,
            "silence_s": self._patience.silence_s,
            "proxy": self._endpoint.proxy,
        }
        return GatewayClient(**parts) if start.shards == 1 else ShardedClient(start, **parts)

    def _interacted(self, me: DiscordIdentity, door: Door, errands: Errands) -> Callable[[discord.Interaction], None]:
        """Those who hear of interactions, however they come; each takes what is his."""
        presses, invocations = Presses(me, door, self._links, errands), Invocations(me, door, self._links, errands)

        def heard(interaction: discord.Interaction) -> None:
            presses.heard(interaction)
            invocations.heard(interaction)

        return heard

    async def _marks(self, me: DiscordIdentity) -> Marks:
        """How far we came, with the direct chats that an earlier session heard of after we were gone."""
        marks = Marks(self._positions, f"discord:{me.user_id}:marks", ORDER)
        if not await marks.load():
            await marks.begin(str(snowflake_at(self._clock.now_ms())))
        left = left_session(await self._positions.position(_record_of(me)))
        if left is not None:
            for word in await unheard_direct_words(left, self._endpoint.token, proxy=self._endpoint.proxy):
                marks.meet(direct_place(word.channel_id), word.message_id)
            await marks.save()
        return marks

    async def _keep_session_on_record(self, client: GatewayClient, me: DiscordIdentity) -> None:
        """Whoever comes after us may take it up. It moves with each event."""
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
        while client.lost_for_s < self._patience.lost_s:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if client.is_ready():
                if self.state != CONNECTED and not client.lost_for_s:
                    log.info("%s: connected as %s", self._name, client.user)
                self.state = "the gateway is being found again" if client.lost_for_s else CONNECTED
            elif asyncio.get_running_loop().time() - began_s > ready_within_s:
                break
        raise GatewayLost


class _Events:
    """Passes the events of a client to its listener, who exists only after the login, as do those for interactions."""

    def __init__(self) -> None:
        self.listener: Listener[DiscordEvent] | None = None
        self.interacted: Callable[[discord.Interaction], None] = lambda interaction: None
        self._begun: set[int] = set()

    def heard(self, event: Heard[DiscordEvent]) -> None:
        if self.listener is not None:
            self.listener.hear(event)

    def interaction(self, interaction: discord.Interaction) -> None:
        self.interacted(interaction)

    def began(self, shard_id: int) -> None:
        """A further session that is no resume: what was said in between is in the history only."""
        if self.listener is not None and shard_id in self._begun:
            self.listener.lost_touch()
        self._begun.add(shard_id)


def _record_of(me: DiscordIdentity) -> str:
    return f"discord:{me.user_id}:session"
