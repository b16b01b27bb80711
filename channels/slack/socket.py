"""Socket Mode over several connections, each of which is watched from outside and built anew by itself.

Slack sends each event over any one of them, so while one is renewed the others hear. The SDK may try one spent
address for ever, and would try a wrong token for ever: addresses are asked for by ourselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import CONNECTED
from channels.backoff import Backoff
from channels.slack import limits
from channels.slack.bolt import Handler, acknowledge_unreadable
from channels.slack.errors import asked_to_wait_s, or_rejected
from channels.slack.logs import sdk_log
from channels.together import first_to_end
from gateway.contracts.errors import CredentialsRejected
from gateway.limits import POLLER_LEASE_TTL_S

log = logging.getLogger(__name__)


class SocketLost(Exception):
    """The socket is dead and the SDK does not mend it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """When a connection counts as dead: four pings of `ping_every_s` without an answer, `dead_s` without a
    socket that has greeted us. `lease_ttl_s` after our death somebody else connects."""

    ping_every_s: float = limits.PING_EVERY_S
    dead_s: float = limits.DEAD_AFTER_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


PATIENCE: Final = Patience()


@dataclass(slots=True)
class _Link:
    """One of the connections, over all the sockets that it has had. `greeted` is the newest that said hello."""

    hello: Callable[[_Link], None]
    goodbye: Callable[[_Link], None]
    greetings: asyncio.Event = field(default_factory=asyncio.Event)
    greeted: object = None
    has_greeted: bool = False
    is_announced: bool = False
    """Slack said that it would end the socket, and ended it."""

    async def heard(self, client: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None) -> None:
        """A frame as the SDK hands it on."""
        match message.get("type"):
            case "hello":
                self.greeted = getattr(client, "current_session", None)
                self.hello(self)
                self.has_greeted, self.is_announced = True, False
                self.greetings.set()
            case "disconnect":
                self.is_announced = True
                self.goodbye(self)
            case _:
                await acknowledge_unreadable(client, message)


class Sockets:
    """The connections of one app. `lost_touch` is told when something may have been said that none of them heard."""

    def __init__(
        self,
        client: AsyncWebClient,
        app: AsyncApp,
        *,
        app_token: str,
        connections: int,
        patience: Patience,
        lost_touch: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """`tell` gets the state."""
        self._client = client
        self._app = app
        self._app_token = app_token
        self._patience = patience
        self._lost_touch = lost_touch
        self._tell = tell
        self._links: Sequence[_Link] = [_Link(self._up, self._down) for _ in range(connections)]
        self._listening: set[int] = set()  # the links whose sockets are known to be well
        self._first_is_up = asyncio.Event()

    async def run(self) -> None:
        """Stay connected until cancelled. Raises `CredentialsRejected`."""
        await first_to_end(*(self._keep(link) for link in self._links))

    async def _keep(self, link: _Link) -> None:
        """The first connection comes alone: should there be a reason why none can, it is met once."""
        if link is not self._links[0]:
            await self._first_is_up.wait()
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        while True:
            wait_s = 0.0
            try:
                await self._connect(link, backoff)
            except CredentialsRejected:
                raise
            except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                self._down(link, f"not connected ({type(error).__name__})")
                log.warning("slack: a connection ended", exc_info=log.isEnabledFor(logging.DEBUG))
                wait_s = asked_to_wait_s(error)
            await asyncio.sleep(max(wait_s, backoff.next_s()))

    async def _connect(self, link: _Link, backoff: Backoff) -> None:
        """One handler with its sockets. Raises `SocketLost` at its end."""
        handler = self._handler(await self._url())
        handler.client.message_listeners.append(link.heard)
        link.greetings.clear()
        try:
            async with asyncio.timeout(limits.CONNECT_TIMEOUT_S):
                await handler.connect_async()  # type: ignore[no-untyped-call]
                await link.greetings.wait()
            backoff.reset()
            await self._watch(handler, link)
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]

    async def _watch(self, handler: Handler, link: _Link) -> None:
        """Raise `SocketLost` when there is no socket that answers pings and has greeted us for too long."""
        loop = asyncio.get_running_loop()
        alive_at_s = loop.time()
        while loop.time() - alive_at_s < self._patience.dead_s:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if await handler.client.is_connected() and link.greeted is handler.client.current_session:
                alive_at_s = loop.time()
            else:
                self._down(link)
        raise SocketLost

    def _up(self, link: _Link) -> None:
        """It listens. Nothing was missed if Slack said that it would end the last socket and another one listened."""
        others = self._listening - {id(link)}
        if link.has_greeted and not (link.is_announced and others):
            self._lost_touch()
        self._listening.add(id(link))
        self._first_is_up.set()
        self._tell(CONNECTED)

    def _down(self, link: _Link, state: str = "the socket is being mended") -> None:
        self._listening.discard(id(link))
        if not self._listening:
            self._tell(state)

    async def _url(self) -> str:
        try:
            answer = await self._client.apps_connections_open(app_token=self._app_token)
        except SlackApiError as error:
            raise or_rejected(error) from error
        return str(answer["url"])

    def _handler(self, url: str) -> Handler:
        """It will connect to `url` (good for one connection). Must be made inside the running loop."""
        handler = Handler(
            self._app,
            self._app_token,
            logger=sdk_log,
            web_client=self._client,
            ping_interval=self._patience.ping_every_s,
        )
        handler.client.proxy = self._client.proxy
        handler.client.wss_uri = url
        return handler
