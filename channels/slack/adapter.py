"""Our connection to Slack: Bolt over Socket Mode, posts that carry our id in their metadata.

An event is acknowledged after the bus has it; whatever Slack does not send again is read back from its
history. The socket is watched from outside, because the SDK may try one spent address for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import CONNECTED, MARK, AdapterParts, Budget, Door
from channels.backoff import Backoff
from channels.listening import Listener
from channels.marks import Marks
from channels.proxies import goes_direct
from channels.raw import Raw
from channels.slack import limits
from channels.slack.address import parse_target
from channels.slack.errors import api_word, delivery_error, is_rejection, lookup_error, rejected
from channels.slack.history import History, ts_order
from channels.slack.lookup import METADATA_TYPE, client_msg_id, find_post
from channels.slack.normalize import SlackIdentity
from channels.slack.render import SlackChunk, render, under
from channels.slack.socket import sdk_log, socket_handler
from channels.slack.source import SlackSource
from channels.threads import Threads
from channels.together import first_to_end
from gateway.config import Settings
from gateway.contracts.errors import ConfigError, CredentialsRejected, SendFailed, Untraceable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, IntakeBus

log = logging.getLogger(__name__)


class SocketLost(Exception):
    """The socket is dead and the SDK does not mend it."""


class SlackAdapter:
    """One app in one workspace. `ChannelAdapter`, `SupportsLookup`, `SupportsTyping`."""

    name = "slack"
    typing_period_s = limits.STATUS_PERIOD_S

    def __init__(
        self,
        *,
        bot_token: str,
        app_token: str,
        api_base: str,
        positions: IntakeBus,
        clock: Clock,
        ping_every_s: float = limits.PING_EVERY_S,
    ) -> None:
        """`api_base` ends with a slash."""
        self._bot_token = bot_token
        self._app_token = app_token
        self._api_base = api_base
        self._positions = positions
        self._clock = clock
        self._ping_every_s = ping_every_s
        self._ready = asyncio.Event()
        self._client: AsyncWebClient | None = None
        self.account = "slack"
        self.state = "connecting"

    async def run(self, door: Door) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limits.CALL_TIMEOUT_S)) as session:
            client = self._client = self._web_client(session)
            try:
                while True:
                    try:
                        await self._listen(client, door, backoff)
                    except CredentialsRejected:
                        raise
                    except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                        self.state = f"not connected ({type(error).__name__})"
                        log.warning("slack: %s", self.state, exc_info=log.isEnabledFor(logging.DEBUG))
                    await asyncio.sleep(backoff.next_s())
            finally:
                self._ready.clear()
                self._client = None

    async def until_ready(self) -> None:
        await self._ready.wait()

    def chunks(self, text: CleanText) -> Sequence[SlackChunk]:
        return render(text)

    def marked(self, chunk: SlackChunk) -> SlackChunk:
        return under(MARK, chunk)

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        return (
            Budget(f"channel:{parse_target(address.target).channel}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST),
            Budget("workspace", limits.WORKSPACE_PER_S, limits.WORKSPACE_BURST),
        )

    async def send(self, address: ReplyAddress, chunk: SlackChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        client, target = self._connected(), parse_target(address.target)
        try:
            posted = await client.chat_postMessage(
                channel=target.channel,
                thread_ts=target.thread_ts,
                text=chunk.plain if plain else chunk.text,
                mrkdwn=not plain,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": METADATA_TYPE, "event_payload": {"id": send_id}},
                client_msg_id=client_msg_id(send_id),
            )
        except Exception as error:
            raise delivery_error(error) from error
        return (str(posted["ts"]),)

    async def find_sent(
        self, address: ReplyAddress, chunk: SlackChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        client, target = self._connected(), parse_target(address.target)
        for pause_s in (limits.LOOKUP_SETTLES_S, 0):
            try:
                found = await find_post(client, target.channel, target.thread_ts, send_id=send_id, since_ms=since_ms)
            except Exception as error:
                raise lookup_error(error) from error
            if found is not None:
                return found
            await asyncio.sleep(pause_s)
        raise Untraceable("the history does not show it")

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        client, target = self._connected(), parse_target(address.target)
        thread_ts = target.thread_ts or target.message_ts
        if thread_ts is None:
            return
        try:
            await client.assistant_threads_setStatus(channel_id=target.channel, thread_ts=thread_ts, status=status)
        except Exception as error:
            raise delivery_error(error) from error

    # --- listening

    async def _listen(self, client: AsyncWebClient, door: Door, backoff: Backoff) -> None:
        """One connection, from the check of the credentials to its end."""
        me = await self._identify(client)
        self.account = f"slack:{me.account}"
        marks = Marks(self._positions, f"slack:{me.account}:marks", ts_order)
        if not await marks.load():
            await marks.begin(f"{self._clock.now_ms() / 1000:.6f}")
        source = SlackSource(me, History(client, marks, self._clock), Threads(self._positions, f"slack:{me.account}"))
        listener: Listener[Raw] = Listener(self.name, door, marks, source)
        handler = socket_handler(
            client, self._app_token, await self._socket_url(client), me, source.hearing(listener), self._ping_every_s
        )
        greeted = asyncio.Event()
        handler.client.message_listeners.append(_on_hello(greeted, listener))
        self._ready.set()
        try:
            async with asyncio.timeout(limits.CONNECT_TIMEOUT_S):
                await handler.connect_async()  # type: ignore[no-untyped-call]
                await greeted.wait()
            self.state = CONNECTED
            backoff.reset()
            log.info("slack: connected to workspace %s as %s", me.team_id, me.user_id)
            await first_to_end(listener.run(), self._watch(handler))
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]

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
            answer = await client.apps_connections_open(app_token=self._app_token)
        except SlackApiError as error:
            raise _or_rejected(error) from error
        return str(answer["url"])

    async def _watch(self, handler: AsyncSocketModeHandler) -> None:
        """Raise `SocketLost` when the socket stays away longer than the SDK needs to mend it."""
        loop = asyncio.get_running_loop()
        alive_at_s = loop.time()
        while loop.time() - alive_at_s < limits.DEAD_AFTER_S:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if await handler.client.is_connected():
                alive_at_s = loop.time()
                self.state = CONNECTED
            else:
                self.state = "the socket is being mended"
        raise SocketLost

    def _connected(self) -> AsyncWebClient:
        if self._client is None:
            raise SendFailed("not connected to Slack")
        return self._client

    def _web_client(self, session: aiohttp.ClientSession) -> AsyncWebClient:
        client = AsyncWebClient(
            token=self._bot_token, base_url=self._api_base, session=session, retry_handlers=[], logger=sdk_log
        )
        if goes_direct(self._api_base):
            client.proxy = None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
        return client


def _or_rejected(error: SlackApiError) -> Exception:
    word = api_word(error)
    return rejected(word) if is_rejection(word) else error


def _on_hello(greeted: asyncio.Event, listener: Listener[Raw]) -> Callable[..., Awaitable[None]]:
    """Every greeting but the first belongs to a new socket, and in between something may have been said."""

    async def on_message(client: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None) -> None:
        if message.get("type") != "hello":
            return
        if greeted.is_set():
            listener.lost_touch()
        greeted.set()

    return on_message


def open_adapter(settings: Settings, parts: AdapterParts) -> SlackAdapter:
    """The adapter that `channels.slack` asks for. Raises `ConfigError`."""
    chosen = settings.channels.slack
    if chosen.mode != "socket":
        raise ConfigError("channels.slack.mode events is not supported yet: set it to socket")
    if chosen.bot_token is None or chosen.app_token is None:
        raise ConfigError("channels.slack.bot_token or .app_token is empty: set both, as the app's pages show them")
    return SlackAdapter(
        bot_token=chosen.bot_token.get_secret_value(),
        app_token=chosen.app_token.get_secret_value(),
        api_base=chosen.api_base,
        positions=parts.positions,
        clock=parts.clock,
    )
