"""One app's presence in a workspace, under supervision: lease, socket, marks, what was missed.

An event is acknowledged after the bus has it; whatever Slack does not send again is read back from its
history. The socket is watched from outside, because the SDK may try one spent address for ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import CONNECTED, Door
from channels.backoff import Backoff
from channels.errands import Errands
from channels.leases import while_holding
from channels.listening import Listener
from channels.marks import Marks
from channels.proxies import goes_direct
from channels.raw import Raw
from channels.slack import limits
from channels.slack.buttons import Presses
from channels.slack.context import ThreadContext
from channels.slack.errors import api_word, is_rejection, rejected
from channels.slack.history import ORDER, History
from channels.slack.links import Links
from channels.slack.logs import sdk_log
from channels.slack.normalize import SlackIdentity
from channels.slack.people import People
from channels.slack.socket import socket_handler
from channels.slack.source import SlackSource
from channels.threads import Threads
from channels.together import first_to_end
from gateway.contracts.errors import CredentialsRejected
from gateway.contracts.ports import Clock, DeliveryBus, IntakeBus
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)


class SocketLost(Exception):
    """The socket is dead and the SDK does not mend it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which app, at which Slack. `api_base` ends with a slash."""

    bot_token: str
    app_token: str
    api_base: str

    @property
    def lease(self) -> str:
        """The name of the right to listen: one per app token, which it does not give away."""
        return f"socket:slack:{hashlib.blake2s(self.app_token.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Patience:
    """When a connection counts as dead: four pings of `ping_every_s` without an answer, `dead_s` without a
    socket that has greeted us. `lease_ttl_s` after our death somebody else connects."""

    ping_every_s: float = limits.PING_EVERY_S
    dead_s: float = limits.DEAD_AFTER_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


PATIENCE: Final = Patience()


class Connection:
    """One app. `client` is there while it is connected."""

    def __init__(
        self,
        endpoint: Endpoint,
        positions: IntakeBus,
        leases: DeliveryBus,
        clock: Clock,
        links: Links,
        *,
        holder: str,
        patience: Patience,
    ) -> None:
        self._endpoint = endpoint
        self._positions = positions
        self._leases = leases
        self._clock = clock
        self._links = links
        self._holder = holder
        self._patience = patience
        self._errands = Errands("slack")
        self._ready = asyncio.Event()
        self.client: AsyncWebClient | None = None
        self.me: SlackIdentity | None = None
        self.state = "connecting"

    @property
    def account(self) -> str:
        """The installation, empty until it is known."""
        return self.me.account if self.me else ""

    async def until_ready(self) -> None:
        """Wait until there is a client to send with."""
        await self._ready.wait()

    async def run(self, door: Door) -> None:
        """Listen, whenever nobody else does, until cancelled. Raises `CredentialsRejected`."""
        await while_holding(
            self._leases,
            self._endpoint.lease,
            self._holder,
            lambda: self._stay_connected(door),
            waiting=self._wait_for_lease,
            ttl_s=self._patience.lease_ttl_s,
        )

    def _wait_for_lease(self, obstacle: str) -> None:
        self.state = obstacle

    async def _stay_connected(self, door: Door) -> None:
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limits.CALL_TIMEOUT_S)) as session:
            client = self.client = self._web_client(session)
            try:
                while True:
                    try:
                        await self._listen(client, door, backoff)
                        self.state = "not connected"
                    except CredentialsRejected:
                        raise
                    except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                        self.state = f"not connected ({type(error).__name__})"
                        log.warning("slack: %s", self.state, exc_info=log.isEnabledFor(logging.DEBUG))
                    await asyncio.sleep(backoff.next_s())
            finally:
                self._ready.clear()
                self.client = None

    async def _listen(self, client: AsyncWebClient, door: Door, backoff: Backoff) -> None:
        """One handler with its sockets, from the check of the credentials to its end."""
        me = self.me = await self._identify(client)
        marks = Marks(self._positions, f"slack:{me.account}:marks", ORDER)
        if not await marks.load():
            await marks.begin(f"{self._clock.now_ms() / 1000:.6f}")
        threads = Threads(self._positions, f"slack:{me.account}")
        people = People(client, self._clock)
        context = ThreadContext(client, people, Threads(self._positions, f"slack:{me.account}:read"))
        source = SlackSource(me, History(client, marks, self._clock), threads, self._links, people, context)
        listener: Listener[Raw] = Listener("slack", door, marks, source)
        url = await self._socket_url(client)
        hear = Presses(me, door, self._errands).before(source.hearing(listener))
        every_s = self._patience.ping_every_s
        handler = socket_handler(client, self._endpoint.app_token, url, me, hear, every_s)
        greetings = _Greetings(listener)
        handler.client.message_listeners.append(greetings.heard)
        self._ready.set()
        try:
            async with asyncio.timeout(limits.CONNECT_TIMEOUT_S):
                await handler.connect_async()  # type: ignore[no-untyped-call]
                await greetings.first.wait()
            self.state = CONNECTED
            backoff.reset()
            log.info("slack: connected to workspace %s as %s", me.team_id, me.user_id)
            await first_to_end(listener.run(), self._watch(handler, greetings))
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]
            await self._errands.end()
            await people.close()

    async def _identify(self, client: AsyncWebClient) -> SlackIdentity:
        try:
            answer = await client.auth_test()
        except SlackApiError as error:
            raise _or_rejected(error) from error
        return SlackIdentity(
            team_id=str(answer.get("team_id") or ""),
            user_id=str(answer["user_id"]),
            bot_id=str(answer.get("bot_id") or ""),
            enterprise_id=str(answer.get("enterprise_id") or ""),
        )

    async def _socket_url(self, client: AsyncWebClient) -> str:
        """Asked for by ourselves, because the SDK would try a wrong app token for ever."""
        try:
            answer = await client.apps_connections_open(app_token=self._endpoint.app_token)
        except SlackApiError as error:
            raise _or_rejected(error) from error
        return str(answer["url"])

    async def _watch(self, handler: AsyncSocketModeHandler, greetings: _Greetings) -> None:
        """Raise `SocketLost` when there is no socket that answers pings and has greeted us for too long."""
        loop = asyncio.get_running_loop()
        alive_at_s = loop.time()
        while loop.time() - alive_at_s < self._patience.dead_s:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if await handler.client.is_connected() and greetings.current is handler.client.current_session:
                alive_at_s = loop.time()
                self.state = CONNECTED
            else:
                self.state = "the socket is being mended"
        raise SocketLost

    def _web_client(self, session: aiohttp.ClientSession) -> AsyncWebClient:
        endpoint = self._endpoint
        client = AsyncWebClient(
            token=endpoint.bot_token, base_url=endpoint.api_base, session=session, retry_handlers=[], logger=sdk_log
        )
        if goes_direct(endpoint.api_base):
            client.proxy = None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
        return client


class _Greetings:
    """Which socket has said hello. Each but the first is new, and in between something may have been said."""

    def __init__(self, listener: Listener[Raw]) -> None:
        self._listener = listener
        self.first = asyncio.Event()
        self.current: object = None

    async def heard(self, client: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None) -> None:
        """A frame as the SDK hands it on."""
        if message.get("type") != "hello":
            return
        if self.first.is_set():
            self._listener.lost_touch()
        self.current = getattr(client, "current_session", None)
        self.first.set()


def _or_rejected(error: SlackApiError) -> Exception:
    word = api_word(error)
    return rejected(word) if is_rejection(word) else error
