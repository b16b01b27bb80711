"""One app's presence in a workspace, under supervision: lease, sockets or requests, marks, what was missed.

An event is acknowledged after the bus has it; whatever Slack does not send again is read back from its
history.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import AdapterParts, Door
from channels.backoff import Backoff
from channels.calls import Call, CallAnswer, come_again
from channels.errands import Errands
from channels.inbound.briefing import Briefing
from channels.inbound.listening import Listener
from channels.inbound.marks import Marks
from channels.inbound.threads import Threads
from channels.leases import while_holding
from channels.proxies import goes_direct
from channels.raw import Raw
from channels.slack import limits
from channels.slack.bolt import bolt_app
from channels.slack.buttons import Presses
from channels.slack.context import ThreadContext
from channels.slack.errors import asked_to_wait_s, or_rejected
from channels.slack.events import Events
from channels.slack.history import ORDER, History
from channels.slack.links import Links
from channels.slack.logs import sdk_log
from channels.slack.moves import Moves
from channels.slack.normalize import SlackIdentity
from channels.slack.people import People
from channels.slack.socket import Patience, Sockets
from channels.slack.source import SlackSource
from channels.together import first_to_end
from gateway.contracts.errors import CredentialsRejected

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which app, at which Slack, by which way. `api_base` ends with a slash. With an `app_token` it is listened to,
    over so many `connections`; without one Slack calls us, and proves it by the `signing_secret`.
    `bots` are other bots that it hears; with `begins_threads` a mention in a channel is answered in its own thread."""

    bot_token: str
    app_token: str
    api_base: str
    connections: int = 1
    signing_secret: str = ""
    proxy: str = ""
    bots: frozenset[str] = frozenset()
    begins_threads: bool = False

    @property
    def lease(self) -> str:
        """The name of the right to listen: one per app token, which it does not give away."""
        return f"socket:slack:{hashlib.blake2s(self.app_token.encode(), digest_size=8).hexdigest()}"


class Connection:
    """One app. `client` is there while it is connected."""

    def __init__(
        self,
        endpoint: Endpoint,
        parts: AdapterParts,
        links: Links,
        *,
        name: str,
        patience: Patience,
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._positions = parts.positions
        self._leases = parts.leases
        self._clock = parts.clock
        self._places = parts.places
        self._links = links
        self._holder = parts.holder
        self._patience = patience
        self._errands = Errands(name)
        self._events = None if endpoint.app_token else Events(endpoint.signing_secret, parts.clock)
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
        """Listen, whenever nobody else does, until cancelled; requests are taken by every process. Raises
        `CredentialsRejected`."""
        if self._events is not None:
            await self._stay_connected(door)
            return
        await while_holding(
            self._leases,
            self._endpoint.lease,
            self._holder,
            lambda: self._stay_connected(door),
            waiting=self._tell,
            ttl_s=self._patience.lease_ttl_s,
        )

    @property
    def is_called(self) -> bool:
        return self._events is not None

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it."""
        return come_again() if self._events is None else await self._events.called(call)

    def _tell(self, state: str) -> None:
        self.state = state

    async def _stay_connected(self, door: Door) -> None:
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limits.CALL_TIMEOUT_S)) as session:
            client = self.client = self._web_client(session)
            try:
                while True:
                    wait_s = 0.0
                    try:
                        await self._listen(client, door, backoff)
                        self.state = "not connected"
                    except CredentialsRejected:
                        raise
                    except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                        self.state = f"not connected ({type(error).__name__})"
                        log.warning("%s: %s", self._name, self.state, exc_info=log.isEnabledFor(logging.DEBUG))
                        wait_s = asked_to_wait_s(error)
                    await asyncio.sleep(max(wait_s, backoff.next_s()))
            finally:
                self._ready.clear()
                self.client = None

    async def _listen(self, client: AsyncWebClient, door: Door, backoff: Backoff) -> None:
        """From the check of the credentials to the end of whatever it is that brings us events."""
        me = self.me = await self._identify(client)
        await self._places.introduce("slack", list(filter(None, (me.user_id, me.bot_id))))
        marks = Marks(self._positions, f"{self._name}:{me.account}:marks", ORDER)
        if not await marks.load():
            await marks.begin(f"{self._clock.now_ms() / 1000:.6f}")
        threads = Threads(self._positions, f"{self._name}:{me.account}")
        people = People(client, self._clock)
        context = ThreadContext(client, people)
        read = Threads(self._positions, f"{self._name}:{me.account}:read")
        briefing = Briefing(read, wait_s=limits.THREAD_WAIT_S)
        moves = Moves(self._places, self._name)
        await moves.load()
        history = History(client, marks, self._clock, moves)
        source = SlackSource(me, history, threads, self._links, people, context, briefing, moves)
        listener: Listener[Raw] = Listener(self._name, door, marks, source)
        hear = Presses(me, door, people, self._errands, proxy=self._endpoint.proxy).before(source.hearing(listener))
        app = bolt_app(client, me, hear)
        log.info("%s: workspace %s knows us as %s", self._name, me.team_id, me.user_id)
        backoff.reset()
        self._ready.set()
        try:
            await first_to_end(listener.run(), self._be_brought(client, app, listener.lost_touch))
        finally:
            await self._errands.end()
            await people.close()

    async def _be_brought(self, client: AsyncWebClient, app: AsyncApp, lost_touch: Callable[[], None]) -> None:
        """Let Slack bring events, over sockets or by HTTP. Raises `CredentialsRejected`."""
        if self._events is not None:
            with self._events.open(app, lost_touch):
                await self._events.keep(client, self._tell)
            return
        await Sockets(
            client,
            app,
            app_token=self._endpoint.app_token,
            connections=self._endpoint.connections,
            patience=self._patience,
            lost_touch=lost_touch,
            tell=self._tell,
        ).run()

    async def _identify(self, client: AsyncWebClient) -> SlackIdentity:
        try:
            answer = await client.auth_test()
        except SlackApiError as error:
            raise or_rejected(error) from error
        return SlackIdentity(
            team_id=str(answer.get("team_id") or ""),
            user_id=str(answer["user_id"]),
            bot_id=str(answer.get("bot_id") or ""),
            enterprise_id=str(answer.get("enterprise_id") or ""),
            channel=self._name,
            bots=self._endpoint.bots,
            begins_threads=self._endpoint.begins_threads,
        )

    def _web_client(self, session: aiohttp.ClientSession) -> AsyncWebClient:
        endpoint = self._endpoint
        client = AsyncWebClient(
            token=endpoint.bot_token, base_url=endpoint.api_base, session=session, retry_handlers=[], logger=sdk_log
        )
        if endpoint.proxy or goes_direct(endpoint.api_base):
            client.proxy = endpoint.proxy or None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
        return client
