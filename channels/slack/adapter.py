"""Our adapter for Slack: what is heard comes from `channels.slack.connection`, posts carry our id in their metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import SecretStr
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import AdapterParts, Budget, Cadence, Door, Nameable, OutgoingFile
from channels.calls import Call, CallAnswer
from channels.raw import Raw
from channels.slack import limits
from channels.slack.address import SlackTarget, parse_target, relocated
from channels.slack.connection import Connection, Endpoint
from channels.slack.downloads import fetch
from channels.slack.errors import delivery_error, fetch_error, file_error, lookup_error
from channels.slack.files import put_up, share
from channels.slack.links import Links, answer, direct_channel
from channels.slack.lookup import began, carries, find_post, is_whole, shows_file
from channels.slack.posting import change, post
from channels.slack.render import SlackChunk, SlackFile, SlackPart, file_part, render, under
from channels.slack.socket import PATIENCE, Patience
from channels.slack.streams import Streams
from channels.text.graphemes import clipped
from gateway.config import Settings, table_of
from gateway.contracts.errors import ConfigError, SendFailed, Untraceable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import FetchedFile


class SlackAdapter:
    """One app in one workspace. `ChannelAdapter`, `SupportsCalls`, `SupportsStreaming`, `SupportsWithdrawal`,
    `SupportsFiles`, `SupportsUploads`, `SupportsLookup`, `SupportsChoices`, `SupportsDownloads`, `SupportsNames`,
    `SupportsTyping`, `SupportsMoves`."""

    typing_period_s = limits.STATUS_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S

    def __init__(
        self,
        endpoint: Endpoint,
        parts: AdapterParts,
        *,
        name: str = "slack",
        patience: Patience = PATIENCE,
        stream_life_s: float = limits.STREAM_LIFE_S,
    ) -> None:
        self.name = name
        self._api_base = endpoint.api_base
        self._proxy = endpoint.proxy
        self._links = Links(parts.places, lambda: self.account, proxy=endpoint.proxy)
        self._connection = Connection(endpoint, parts, self._links, name=name, patience=patience)
        self._streams = Streams(self._connected, parts.clock, life_s=stream_life_s)

    @property
    def account(self) -> str:
        return f"{self.name}:{self._connection.account}"

    @property
    def state(self) -> str:
        return self._connection.state

    async def run(self, door: Door) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        await self._connection.run(door)

    @property
    def is_called(self) -> bool:
        return self._connection.is_called

    async def called(self, call: Call) -> CallAnswer:
        return await self._connection.called(call)

    async def until_ready(self) -> None:
        await self._connection.until_ready()

    def chunks(self, text: CleanText) -> Sequence[SlackChunk]:
        return render(text)

    def file_chunk(self, file: OutgoingFile) -> SlackFile:
        return file_part(file.name, file.content, file.caption)

    def uploaded(self, chunk: SlackFile, upload_id: str) -> SlackFile:
        return replace(chunk, upload_id=upload_id)

    def marked(self, chunk: SlackPart, mark: CleanText) -> SlackPart:
        return under(mark, chunk)

    def offering(self, chunk: SlackChunk, choices: Sequence[Choice]) -> SlackChunk:
        return replace(chunk, choices=tuple(choices))

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        return (
            Budget(f"channel:{parse_target(address.target).channel}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST),
            Budget("workspace", limits.WORKSPACE_PER_S, limits.WORKSPACE_BURST),
        )

    async def upload(self, address: ReplyAddress, chunk: SlackFile) -> str:
        try:
            return await put_up(self._connected(), chunk, proxy=self._proxy)
        except Exception as error:
            raise file_error(error) from error

    async def send(self, address: ReplyAddress, chunk: SlackPart, *, send_id: str, plain: bool) -> tuple[str, ...]:
        client, target = self._connected(), parse_target(address.target)
        if isinstance(chunk, SlackFile):
            try:
                return await share(client, await self._place_of(target), chunk)
            except Exception as error:
                raise file_error(error) from error
        if target.picks and send_id.endswith(":0"):
            chunk = replace(chunk, picks=target.picks)
        if target.link:
            return await answer(client, self._links, target, chunk, send_id=send_id, plain=plain)
        return (await post(client, target, chunk, send_id=send_id, plain=plain),)

    async def amend(self, address: ReplyAddress, chunk: SlackChunk, *, message_id: str, plain: bool) -> bool:
        target = parse_target(address.target)
        return await change(self._connected(), target, chunk, ts=message_id, plain=plain)

    def nameable(self, address: ReplyAddress) -> Nameable | None:
        target = parse_target(address.target)
        if not target.is_nameable:
            return None
        return Nameable(
            target.lane, is_first=True, budgets=(Budget("titles", limits.TITLES_PER_S, limits.TITLES_BURST),)
        )

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        return True  # nobody can ask for the title of a thread; the same one again changes nothing

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        client, target = self._connected(), parse_target(address.target)
        name = clipped(title, limits.TITLE_UNITS_MAX)
        try:
            await client.assistant_threads_setTitle(
                channel_id=target.channel, thread_ts=target.thread_ts or "", title=name
            )
        except Exception as error:
            raise delivery_error(error) from error

    def cadence(self, address: ReplyAddress) -> Cadence | None:
        return self._streams.cadence(parse_target(address.target))

    def is_draft(self, address: ReplyAddress) -> bool:
        return False

    async def begin_stream(self, address: ReplyAddress, chunk: SlackChunk, *, send_id: str) -> str:
        return await self._streams.begin(parse_target(address.target), chunk, send_id=send_id)

    async def go_on(self, address: ReplyAddress, chunk: SlackChunk, *, message_id: str, send_id: str) -> bool:
        return await self._streams.go_on(parse_target(address.target), chunk, ts=message_id, send_id=send_id)

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        await self._streams.end(parse_target(address.target), ts=message_id)

    async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
        return await self._streams.take_back(parse_target(address.target), ts=message_id)

    async def find_sent(
        self, address: ReplyAddress, chunk: SlackPart, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        """What arrived before it was whole, because it grew, is made whole."""
        client, asked = self._connected(), parse_target(address.target)
        for pause_s in (0 if asked.is_aside else limits.LOOKUP_SETTLES_S, 0):  # what went by a link is in no history
            try:
                target = await self._place_of(asked)
                is_it = self._is_it(target, chunk, send_id)
                found = await find_post(client, target.channel, target.thread_ts, is_it=is_it, since_ms=since_ms)
            except Exception as error:
                raise lookup_error(error) from error
            if found is not None:
                break
            await asyncio.sleep(pause_s)
        else:
            raise Untraceable("the history does not show it")
        ts = str(found["ts"])
        if not isinstance(chunk, SlackFile) and not is_whole(found, chunk):
            await change(client, target, chunk, ts=ts, plain=False)
        return (ts,)

    async def _place_of(self, target: SlackTarget) -> SlackTarget:
        """Where something goes that takes a message: what is for one person, into his direct messages."""
        return SlackTarget(await direct_channel(self._connected(), target)) if target.is_aside else target

    def _is_it(self, target: SlackTarget, chunk: SlackPart, send_id: str) -> Callable[[Raw], bool]:
        if isinstance(chunk, SlackFile):
            return shows_file(chunk.upload_id)
        is_sent, me = carries(send_id), self._connection.me
        if target.thread_ts is None or me is None:  # nothing is streamed there
            return is_sent
        is_streamed = began(chunk, me)
        return lambda message: is_sent(message) or is_streamed(message)

    def chat_of(self, address: ReplyAddress) -> str:
        """Empty for direct messages, which never move."""
        target = parse_target(address.target)
        return "" if target.is_direct else target.channel

    def relocated(self, address: ReplyAddress, chat: str) -> ReplyAddress:
        return relocated(address, chat)

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        client = self._connected()
        try:
            return await fetch(client, reference, api_base=self._api_base, bytes_max=bytes_max, proxy=self._proxy)
        except Exception as error:
            raise fetch_error(error) from error

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        client, target = self._connected(), parse_target(address.target)
        thread_ts = target.thread_ts or target.message_ts
        if thread_ts is None:
            return
        try:
            await client.assistant_threads_setStatus(channel_id=target.channel, thread_ts=thread_ts, status=status)
        except Exception as error:
            raise delivery_error(error) from error

    def _connected(self) -> AsyncWebClient:
        client = self._connection.client
        if client is None:
            raise SendFailed("not connected to Slack")
        return client


def open_adapter(name: str, settings: Settings, parts: AdapterParts) -> SlackAdapter:
    """The adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.slacks()[name]
    if chosen.bot_token is None or chosen.missing:
        keys = " and ".join(f"{table_of(name)}.{key}" for key in chosen.missing)
        raise ConfigError(f"{keys} is empty: set it, as the app's pages show it")
    endpoint = Endpoint(
        bot_token=chosen.bot_token.get_secret_value(),
        app_token=_value(chosen.app_token) if chosen.mode == "socket" else "",
        api_base=chosen.api_base,
        connections=chosen.connections,
        signing_secret=_value(chosen.signing_secret),
        proxy=chosen.proxy,
        bots=frozenset(chosen.bots),
        begins_threads=chosen.threads == "mention",
    )
    return SlackAdapter(endpoint, parts, name=name)


def _value(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""
