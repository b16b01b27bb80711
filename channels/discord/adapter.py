"""Our connection to Discord: a client of discord.py under supervision, sends that carry a nonce.

The SDK gives up in many ways (a first connect that is refused, an event it cannot parse), and waits long
in others; so each session is one client, watched from outside, and the next one is built from nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import cast

import discord

from channels.adapter import CONNECTED, MARK, AdapterParts, Budget, Door
from channels.backoff import Backoff
from channels.discord import limits
from channels.discord.address import DiscordTarget, parse_target
from channels.discord.client import GatewayClient, point_at
from channels.discord.errors import INTENT_MISSING, REJECTED, delivery_error
from channels.discord.history import History
from channels.discord.lookup import find_message, nonce_of
from channels.discord.normalize import DiscordIdentity, DiscordMessage
from channels.discord.render import DiscordChunk, render, under
from channels.discord.snowflakes import snowflake_at
from channels.discord.source import DiscordSource, heard_of
from channels.listening import Listener
from channels.marks import Marks
from channels.threads import Threads
from channels.together import first_to_end
from gateway.config import Settings
from gateway.contracts.errors import ConfigError, CredentialsRejected, SendFailed
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, IntakeBus

log = logging.getLogger(__name__)

_CLOSE_WRONG_TOKEN = 4004


class GatewayLost(Exception):
    """The gateway is gone and the SDK takes too long to come back."""


class DiscordAdapter:
    """One bot. `ChannelAdapter`, `SupportsLookup`, `SupportsTyping`."""

    name = "discord"
    typing_period_s = limits.TYPING_PERIOD_S

    def __init__(self, *, token: str, api_base: str, gateway_url: str, positions: IntakeBus, clock: Clock) -> None:
        """An empty `gateway_url` means the one that the API names."""
        logging.getLogger("discord").setLevel(logging.CRITICAL)
        self._token = token
        self._api_base = api_base
        self._gateway_url = gateway_url
        self._positions = positions
        self._clock = clock
        self._ready = asyncio.Event()
        self._client: GatewayClient | None = None
        self._in_flight: set[asyncio.Timeout] = set()
        self.account = "discord"
        self.state = "connecting"

    async def run(self, door: Door) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await point_at(self._api_base, self._gateway_url)
                await self._one_session(door)
            except discord.LoginFailure as error:
                raise CredentialsRejected(REJECTED) from error
            except discord.PrivilegedIntentsRequired as error:
                raise CredentialsRejected(INTENT_MISSING) from error
            except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                if isinstance(error, discord.ConnectionClosed) and error.code == _CLOSE_WRONG_TOKEN:
                    raise CredentialsRejected(REJECTED) from error
                self.state = f"not connected ({type(error).__name__})"
                log.warning("discord: %s", self.state, exc_info=log.isEnabledFor(logging.DEBUG))
            if loop.time() - began_s > limits.HEALTHY_AFTER_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def until_ready(self) -> None:
        await self._ready.wait()

    def chunks(self, text: CleanText) -> Sequence[DiscordChunk]:
        return render(text)

    def marked(self, chunk: DiscordChunk) -> DiscordChunk:
        return under(MARK, chunk)

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        return (
            Budget(f"channel:{parse_target(address.target).channel_id}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST),
            Budget("bot", limits.BOT_PER_S, limits.BOT_BURST),
        )

    async def send(self, address: ReplyAddress, chunk: DiscordChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        target = parse_target(address.target)
        place = self._place(target)
        async with self._calling():
            sent = await place.send(
                chunk.plain if plain else chunk.content,
                nonce=nonce_of(send_id),
                allowed_mentions=discord.AllowedMentions.none(),
                reference=_quoted(target),
            )
            return (str(sent.id),)

    async def find_sent(
        self, address: ReplyAddress, chunk: DiscordChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        if self._clock.now_ms() - since_ms < limits.NONCE_HOLDS_S * 1000:
            return None  # sent again with its nonce, it is not shown again
        target = parse_target(address.target)
        place, me, nonce = self._place(target), self._my_id(), nonce_of(send_id)
        async with self._calling():
            return await find_message(place, target, chunk, me=me, nonce=nonce, since_ms=since_ms)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        if not status:
            return
        place = self._place(parse_target(address.target))
        async with self._calling():
            await place.typing()

    @contextlib.asynccontextmanager
    async def _calling(self) -> AsyncIterator[None]:
        """Bounds a call and gives its failure its place in our tree."""
        limit = asyncio.timeout(limits.CALL_TIMEOUT_S)
        try:
            async with limit:
                self._in_flight.add(limit)
                yield
        except Exception as error:
            raise delivery_error(error) from error
        finally:
            self._in_flight.discard(limit)

    def _place(self, target: DiscordTarget) -> discord.PartialMessageable:
        if self._client is None:
            raise SendFailed("not connected to Discord")
        return self._client.get_partial_messageable(int(target.channel_id))

    def _my_id(self) -> int:
        if self._client is None or self._client.user is None:
            raise SendFailed("not connected to Discord")
        return self._client.user.id

    async def _one_session(self, door: Door) -> None:
        """One client, from its login to its end."""
        session = _Session()
        client = GatewayClient(heard=session.heard, began=session.began)
        async with client:
            await client.login(self._token)
            if client.user is None:
                raise GatewayLost
            self.account = f"discord:{client.user.id}"
            marks = Marks(self._positions, f"discord:{client.user.id}:marks", int)
            if not await marks.load():
                await marks.begin(str(snowflake_at(self._clock.now_ms())))
            me = DiscordIdentity(str(client.user.id))
            source = DiscordSource(
                me, History(client, marks, self._clock), Threads(self._positions, f"discord:{me.user_id}")
            )
            listener = session.listener = Listener(self.name, door, marks, source)
            self._client = client
            self._ready.set()
            try:
                await first_to_end(client.connect(), self._watch(client), self._listen(client, listener))
            finally:
                self._ready.clear()
                self._client = None
                self._cut_calls()

    def _cut_calls(self) -> None:
        """A call over a client that is being closed hears no answer any more: its outcome is unknown now."""
        for limit in self._in_flight:
            limit.reschedule(asyncio.get_running_loop().time())

    async def _listen(self, client: GatewayClient, listener: Listener[DiscordMessage]) -> None:
        async with asyncio.timeout(limits.READY_TIMEOUT_S):
            await client.wait_until_ready()
        self.state = CONNECTED
        log.info("discord: connected as %s", client.user)
        await listener.run()

    async def _watch(self, client: GatewayClient) -> None:
        while client.lost_for_s < limits.LOST_AFTER_S:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if client.is_ready():
                self.state = "the gateway is being found again" if client.lost_for_s else CONNECTED
        raise GatewayLost


class _Session:
    """Passes the events of a client to its listener, which exists only after the login."""

    def __init__(self) -> None:
        self.listener: Listener[DiscordMessage] | None = None
        self._has_begun = False

    def heard(self, message: discord.Message) -> None:
        if self.listener is not None:
            self.listener.hear(heard_of(message))

    def began(self) -> None:
        """A further session that is no resume: what was said in between is in the history only."""
        if self.listener is not None and self._has_begun:
            self.listener.lost_touch()
        self._has_begun = True


def _quoted(target: DiscordTarget) -> discord.MessageReference:
    """The message that is answered. That it may be gone by now is no reason to fail; None, too, is a reference
    to the SDK, though its overloads do not say so."""
    if target.reply_to_message_id is None:
        return cast(discord.MessageReference, None)
    return discord.MessageReference(
        message_id=int(target.reply_to_message_id), channel_id=int(target.channel_id), fail_if_not_exists=False
    )


def open_adapter(settings: Settings, parts: AdapterParts) -> DiscordAdapter:
    """The adapter that `channels.discord` asks for. Raises `ConfigError`."""
    chosen = settings.channels.discord
    if chosen.token is None:
        raise ConfigError("channels.discord.token is empty: set the bot token of the application")
    return DiscordAdapter(
        token=chosen.token.get_secret_value(),
        api_base=chosen.api_base,
        gateway_url=chosen.gateway_url,
        positions=parts.positions,
        clock=parts.clock,
    )
