"""The adapter for Slack: `channels.slack.connection` hears the messages, and posts carry our id in their metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import aiohttp
from pydantic import SecretStr
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.core import adapter, downloads
from channels.core.message import Raw, integer, mapping, target_fields, text
from channels.markdown.chunk import clipped
from channels.slack import limits, sending
from channels.slack.client import SOCKET_TIMEOUTS, SocketTimeouts
from channels.slack.connection import SlackConnection, SlackEndpoint
from channels.slack.errors import api_word, delivery_error, fetch_error, file_error, lookup_error
from channels.slack.normalize import SlackTarget, parse_target, relocated
from channels.slack.render import SlackChunk, SlackFile, SlackPart, file_part, render, under
from gateway.config import Settings, table_of
from gateway.contracts.errors import ConfigError, FileRefused, FormatRefused, SendFailed, Untraceable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import FetchedFile
from gateway.i18n import sentence

# A file for Slack, in three steps: ask for an address, put the bytes there, share what was put up.


_OK: Final = 200
_SERVER_FAULT: Final = 500


async def put_up(client: AsyncWebClient, file: SlackFile, *, proxy: str = "") -> str:
    """Put the bytes up; Slack's name for them. Raises what the SDK and aiohttp raise, `FormatRefused`, `SendFailed`."""
    promised = await client.files_getUploadURLExternal(filename=file.name, length=len(file.content))
    url = str(promised["upload_url"])
    timeout = aiohttp.ClientTimeout(total=limits.UPLOAD_TIMEOUT_S, sock_connect=limits.CONNECT_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=not proxy and not downloads.goes_direct(url)) as session,
        session.post(
            url, data=file.content, headers={"Content-Type": "application/octet-stream"}, proxy=proxy or None
        ) as answer,
    ):
        if answer.status >= _SERVER_FAULT:
            raise SendFailed(f"Slack answers {answer.status} to an upload")
        if answer.status != _OK:
            raise FormatRefused(f"Slack answers {answer.status} to an upload")
    return str(promised["file_id"])


async def share(client: AsyncWebClient, target: SlackTarget, file: SlackFile) -> tuple[str, ...]:
    """Show the uploaded file. Slack does that a little later, so there is no message to name: the file's name takes
    its place. Raises what the SDK raises."""
    await client.files_completeUploadExternal(
        files=[{"id": file.upload_id, "title": file.name}],
        channel_id=target.channel,
        thread_ts=target.thread_ts,
        initial_comment=file.comment or None,
    )
    return (file.upload_id,)


# Files that people sent on Slack: `files.info` says where one is, and the bot token opens it.


NO_SCOPE: Final = sentence("the app lacks the scope files:read")

_HOSTS: Final = ("slack.com", "slack-files.com", "slack-edge.com")
_GONE_MODES: Final = frozenset({"tombstone", "hidden_by_limit"})
_GONE_WORDS: Final = frozenset({"file_not_found", "file_deleted", "invalid_arguments"})
_SCOPE_WORDS: Final = frozenset({"missing_scope", "not_allowed_token_type"})
_FOREIGN_WORDS: Final = frozenset({"access_denied", "no_permission", "team_access_not_granted", "ekm_access_denied"})
_PAGE: Final = "text/html"


async def fetch(
    client: AsyncWebClient, reference: str, *, api_base: str, bytes_max: int, proxy: str = ""
) -> FetchedFile:
    """Fetch the file of a reference (`channels.slack.normalize`). Raises `FileRefused`, `SendFailed`, and what the SDK
    raises."""
    file_id = text(target_fields(reference).get("id"))
    try:
        answer = await client.files_info(file=file_id)
    except SlackApiError as error:
        word = api_word(error)
        if word in _GONE_WORDS:
            raise FileRefused(downloads.GONE) from None
        if word in _SCOPE_WORDS:
            raise FileRefused(NO_SCOPE) from None
        if word in _FOREIGN_WORDS:
            raise FileRefused(downloads.NOT_FOR_US) from None
        raise
    data: Any = answer.data
    file = mapping(mapping(data).get("file"))
    if file.get("mode") in _GONE_MODES:
        raise FileRefused(downloads.GONE)
    if file.get("is_external") is True or file.get("mode") == "external":
        raise FileRefused(downloads.ELSEWHERE)
    url = text(file.get("url_private_download")) or text(file.get("url_private"))
    if not url:
        raise FileRefused(downloads.NOT_FOR_US)
    if not (downloads.is_on(url, *_HOSTS) or downloads.belongs_to(url, api_base)):
        raise FileRefused(downloads.ELSEWHERE)
    token = {"Authorization": f"Bearer {client.token}"}
    try:
        found = await downloads.download(url, bytes_max=bytes_max, headers=token, proxy=proxy)
    except FileRefused as refused:
        raise (FileRefused(NO_SCOPE) if str(refused) == downloads.ELSEWHERE else refused) from None
    _check(file, found)
    media_type = text(file.get("mimetype")) or found.media_type
    return FetchedFile(text(file.get("name")) or text(file.get("title")), media_type, found.content)


def _check(file: Raw, found: downloads.Downloaded) -> None:
    """Refuse an HTML page that took the place of another file: it is Slack's login page. So is a page of another size
    than promised, or a page where nothing is known of the file."""
    said, size = text(file.get("mimetype")), integer(file.get("size"))
    if found.media_type != _PAGE or said.startswith("application/vnd.slack"):
        return
    is_promised = size == len(found.content) if size else said == _PAGE
    if said not in ("", _PAGE) or not is_promised:
        raise FileRefused(downloads.SOMETHING_ELSE if said == _PAGE else NO_SCOPE)


class SlackAdapter(adapter.ConnectedAdapter):
    """One app in one workspace. `ChannelAdapter`, `SupportsWebhooks`, `SupportsStreaming`, `SupportsRemoval`,
    `SupportsFiles`, `SupportsUploads`, `SupportsLookup`, `SupportsChoices`, `SupportsDownloads`, `SupportsNames`,
    `SupportsTyping`, `SupportsMoves`."""

    typing_period_s = limits.STATUS_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S
    _connection: SlackConnection

    def __init__(
        self,
        endpoint: SlackEndpoint,
        parts: adapter.AdapterDeps,
        *,
        name: str = "slack",
        timeouts: SocketTimeouts = SOCKET_TIMEOUTS,
    ) -> None:
        self._api_base = endpoint.api_base
        self._proxy = endpoint.proxy
        self._response_urls = sending.ResponseUrls(parts.places, lambda: self.account, proxy=endpoint.proxy)
        super().__init__(name, SlackConnection(endpoint, parts, self._response_urls, name=name, timeouts=timeouts))
        self._streams = sending.SlackStreams(self._connected, parts.clock, stopped=self._connection.tell_stopped)

    @property
    def account(self) -> str:
        return f"{self.name}:{self._connection.account}"

    def chunks(self, text: CleanText) -> Sequence[SlackChunk]:
        return render(text)

    def file_chunk(self, file: adapter.OutgoingFile) -> SlackFile:
        return file_part(file.name, file.content, file.caption)

    def uploaded(self, chunk: SlackFile, upload_id: str) -> SlackFile:
        return replace(chunk, upload_id=upload_id)

    def marked(self, chunk: SlackPart, mark: CleanText) -> SlackPart:
        return under(mark, chunk)

    def budgets(self, address: ReplyAddress) -> Sequence[adapter.SendBudget]:
        return (
            adapter.SendBudget(
                f"channel:{parse_target(address.target).channel}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST
            ),
            adapter.SendBudget("workspace", limits.WORKSPACE_PER_S, limits.WORKSPACE_BURST),
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
            return await sending.answer(client, self._response_urls, target, chunk, send_id=send_id, plain=plain)
        return (await sending.post(client, target, chunk, send_id=send_id, plain=plain),)

    async def amend(self, address: ReplyAddress, chunk: SlackChunk, *, message_id: str, plain: bool) -> bool:
        target = parse_target(address.target)
        return await sending.change(self._connected(), target, chunk, ts=message_id, plain=plain)

    def nameable(self, address: ReplyAddress) -> adapter.Nameable | None:
        target = parse_target(address.target)
        if not target.is_nameable:
            return None
        return adapter.Nameable(
            target.lane,
            is_first=True,
            budgets=(adapter.SendBudget("titles", limits.TITLES_PER_S, limits.TITLES_BURST),),
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

    def cadence(self, address: ReplyAddress) -> adapter.StreamCadence | None:
        return self._streams.cadence(parse_target(address.target))

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
        """Find what an earlier attempt sent; a message that was still growing when it was cut off is completed."""
        client, asked = self._connected(), parse_target(address.target)
        for pause_s in (0 if asked.is_aside else limits.LOOKUP_SETTLES_S, 0):  # what went by a link is in no history
            try:
                target = await self._place_of(asked)
                is_it = self._is_it(target, chunk, send_id)
                found = await sending.find_post(
                    client, target.channel, target.thread_ts, is_it=is_it, since_ms=since_ms
                )
            except Exception as error:
                raise lookup_error(error) from error
            if found is not None:
                break
            await asyncio.sleep(pause_s)
        else:
            raise Untraceable("the history does not show it")
        ts = str(found["ts"])
        if not isinstance(chunk, SlackFile) and not sending.is_whole(found, chunk):
            await sending.change(client, target, chunk, ts=ts, plain=False)
        return (ts,)

    async def _place_of(self, target: SlackTarget) -> SlackTarget:
        """Return where to post a message: for one person only, in the direct messages with that person."""
        return SlackTarget(await sending.direct_channel(self._connected(), target)) if target.is_aside else target

    def _is_it(self, target: SlackTarget, chunk: SlackPart, send_id: str) -> Callable[[Raw], bool]:
        if isinstance(chunk, SlackFile):
            return sending.shows_file(chunk.upload_id)
        is_sent, me = sending.carries(send_id), self._connection.me
        if target.thread_ts is None or me is None:  # nothing is streamed there
            return is_sent
        is_streamed = sending.began(chunk, me)
        return lambda message: is_sent(message) or is_streamed(message)

    def chat_of(self, address: ReplyAddress) -> str:
        """Return the chat's id; empty for direct messages, which never move."""
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


def open_adapter(name: str, settings: Settings, parts: adapter.AdapterDeps) -> SlackAdapter:
    """Build the adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.slacks()[name]
    if chosen.bot_token is None or chosen.missing:
        keys = " and ".join(f"{table_of(name)}.{key}" for key in chosen.missing)
        raise ConfigError(f"{keys} is empty: set it, as the app's pages show it")
    endpoint = SlackEndpoint(
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
