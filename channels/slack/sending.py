"""Send to Slack: posts and their look-up, answers to slash commands, answers that grow."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from html import unescape
from http import HTTPStatus
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from slack_sdk.webhook.async_client import AsyncWebhookClient

from channels.core.adapter import StreamCadence
from channels.core.downloads import goes_direct
from channels.core.message import Raw, mapping, text
from channels.slack import limits
from channels.slack.client import sdk_log
from channels.slack.errors import (
    ALREADY_DELETED,
    CANNOT_BE_CHANGED,
    CANNOT_BE_DELETED,
    NEVER_STREAMS,
    RETRY_AFTER_DEFAULT_S,
    STILL_STREAMING,
    api_word,
    delivery_error,
    is_about_streams,
    opening_error,
)
from channels.slack.normalize import SlackIdentity, SlackTarget
from channels.slack.render import SlackChunk, blocks_of, continuation, has_link, settled
from gateway.bounded_dict import BoundedDict
from gateway.bus.places import Places
from gateway.contracts import errors
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

# Did a post of ours arrive? Every post carries the send id in its metadata, and Slack shows it again; a file is known
# by the name that Slack gave it at the upload, a stream, which carries nothing, by its first words.
#
# Slack promises no key that would make a repeated post harmless. `client_msg_id` is sent along all the same; reports
# differ on whether it is heeded.

METADATA_TYPE: Final = "trivet_reply"
_OURS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "trivet/reply")


def client_msg_id(send_id: str) -> str:
    """Derive an id that is the same for every attempt at one chunk."""
    return str(uuid.uuid5(_OURS, send_id))


def metadata_of(send_id: str) -> dict[str, Any]:
    """Write the metadata that tells which chunk a post shows."""
    return {"event_type": METADATA_TYPE, "event_payload": {"id": send_id}}


async def find_post(
    client: AsyncWebClient, channel_id: str, thread_ts: str | None, *, is_it: Callable[[Raw], bool], since_ms: int
) -> Raw | None:
    """Find the post in question, None if the history shows none.

    Raises `Untraceable` when the history goes on too long, otherwise what the SDK raises."""
    oldest = f"{max(0, since_ms // 1000 - limits.LOOKUP_MARGIN_S)}.000000"
    cursor: str | None = None
    for _ in range(limits.LOOKUP_PAGES_MAX):
        if thread_ts:
            page = await client.conversations_replies(
                channel=channel_id, ts=thread_ts, oldest=oldest, cursor=cursor, limit=200, include_all_metadata=True
            )
        else:
            page = await client.conversations_history(
                channel=channel_id, oldest=oldest, cursor=cursor, limit=200, include_all_metadata=True
            )
        for message in page.get("messages") or ():
            if is_it(message):
                return mapping(message)
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return None
    raise errors.Untraceable("too much was said since")


def carries(send_id: str) -> Callable[[Raw], bool]:
    """Return a test for the post with this send id."""

    def is_it(message: Raw) -> bool:
        metadata = mapping(message.get("metadata"))
        payload = mapping(metadata.get("event_payload"))
        return metadata.get("event_type") == METADATA_TYPE and payload.get("id") == send_id

    return is_it


def began(chunk: SlackChunk, me: SlackIdentity) -> Callable[[Raw], bool]:
    """Return a test for a stream of ours that nobody ended, and that began as this chunk does."""
    words = _letters(chunk.source or chunk.plain)

    def is_it(message: Raw) -> bool:
        is_ours = message.get("user") == me.user_id or (me.bot_id and message.get("bot_id") == me.bot_id)
        if not is_ours or message.get("metadata") or message.get("files"):
            return False
        seen = _letters(str(message.get("text", "")))[: limits.SAME_LETTERS]
        return bool(seen) and words.startswith(seen)

    return is_it


def is_whole(message: Raw, chunk: SlackChunk) -> bool:
    """Tell whether the message shows all of the chunk: an answer may have been cut off while it grew."""
    shown = _letters(str(message.get("text", "")))
    return shown.endswith((_letters(chunk.text), _letters(chunk.plain)))


def _letters(text: str) -> str:
    """Return the letters and digits of a text, which stay the same under all that Slack does to other signs."""
    return "".join(filter(str.isalnum, unescape(text)))


def shows_file(upload_id: str) -> Callable[[Raw], bool]:
    """Return a test for the post that shows this file."""
    return lambda message: any(file.get("id") == upload_id for file in message.get("files") or ())


async def post(client: AsyncWebClient, target: SlackTarget, chunk: SlackChunk, *, send_id: str, plain: bool) -> str:
    """Say it; the `ts`. Our id goes along, by which a look-up knows it. Raises the `DeliveryError` tree."""
    try:
        posted = await client.chat_postMessage(
            channel=target.channel,
            thread_ts=target.thread_ts,
            text=chunk.plain if plain else chunk.text,
            blocks=blocks_of(chunk, plain=plain) or None,
            mrkdwn=not plain,
            unfurl_links=False,
            unfurl_media=False,
            metadata=metadata_of(send_id),
            client_msg_id=client_msg_id(send_id),
        )
    except Exception as error:
        raise delivery_error(error) from error
    return ts_of(posted)


def ts_of(answer: AsyncSlackResponse) -> str:
    """Return the `ts` of the post. Raises `OutcomeUnknown` where Slack reports success without it."""
    ts = text(answer.get("ts"))
    if not ts:
        raise errors.OutcomeUnknown("Slack does not say what it has posted")
    return ts


async def change(client: AsyncWebClient, target: SlackTarget, chunk: SlackChunk, *, ts: str, plain: bool) -> bool:
    """Put the chunk in the place of all that a message of ours shows; its metadata stay. False: it is gone. Raises the
    `DeliveryError` tree."""
    for may_stream in (True, False):
        try:
            await client.chat_update(
                channel=target.channel,
                ts=ts,
                text=chunk.plain if plain else chunk.text,
                blocks=blocks_of(chunk, plain=plain),
            )
        except Exception as error:
            word = api_word(error)
            if word in CANNOT_BE_CHANGED:
                return False
            if word not in STILL_STREAMING or not may_stream:
                raise delivery_error(error) from error
        else:
            return True
        await stop_stream(client, target, ts=ts)
    return True


async def take_back(client: AsyncWebClient, target: SlackTarget, *, ts: str) -> bool:
    """Delete a message of ours; one that is gone is deleted. False: it is none of ours, or not to be deleted. Raises
    the `DeliveryError` tree."""
    if target.thread_ts:
        await stop_stream(client, target, ts=ts)
    try:
        await client.chat_delete(channel=target.channel, ts=ts)
    except Exception as error:
        word = api_word(error)
        if word in ALREADY_DELETED or word in CANNOT_BE_DELETED:
            return word in ALREADY_DELETED
        raise delivery_error(error) from error
    return True


async def stop_stream(client: AsyncWebClient, target: SlackTarget, *, ts: str, send_id: str = "") -> None:
    """End a stream, even of another process; a message that is none, or none any more, is left as it is. Raises
    the `DeliveryError` tree."""
    metadata = metadata_of(send_id) if send_id else None
    try:
        await client.chat_stopStream(channel=target.channel, ts=ts, metadata=metadata)
    except Exception as error:
        if not is_about_streams(error):
            raise delivery_error(error) from error


# Where the answer to a slash command goes.
#
#     to the person who asked   the link ─ expired ─▶ a direct message
#     to everybody there        a post ─ we are not there ─▶ the link ─ expired ─▶ a direct message
#
# A link (Slack's `response_url`) takes five answers within half an hour, into places that we need not be in.
# Anybody with the link can speak in our name, so it is on the bus only while it is good, and addresses only name it.

_REFUSED_WORDS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


class ResponseUrls:
    """Response URLs of one installation, which `account` names. Raises `BusUnavailable`."""

    def __init__(self, places: Places, account: Callable[[], str], *, proxy: str = "") -> None:
        self._places = places
        self._account = account
        self.proxy = proxy

    async def keep(self, name: str, url: str) -> None:
        if url:
            await self._places.keep_link(f"{self._account()}:{name}", url, ttl_s=limits.LINK_TTL_S)

    async def find(self, name: str) -> str:
        """Find a response URL; empty for one that is good no more."""
        return await self._places.link(f"{self._account()}:{name}")


async def answer(
    client: AsyncWebClient,
    response_urls: ResponseUrls,
    target: SlackTarget,
    chunk: SlackChunk,
    *,
    send_id: str,
    plain: bool,
) -> tuple[str, ...]:
    """Say it where the person who asked sees it; return the `ts`, if it has one. Raises the `DeliveryError` tree."""
    if not target.is_aside:
        try:
            return (await post(client, target, chunk, send_id=send_id, plain=plain),)
        except errors.AddressDead:
            if target.user_id is None:
                raise
    try:
        url = await response_urls.find(target.link or "")
    except errors.BusUnavailable as error:
        raise errors.SendFailed("the bus is away, and with it the way to the one who asked") from error
    if bool(url) and await respond(url, chunk, plain=plain, proxy=response_urls.proxy):
        return ()
    direct = SlackTarget(await direct_channel(client, target))
    return (await post(client, direct, chunk, send_id=send_id, plain=plain),)


async def direct_channel(client: AsyncWebClient, target: SlackTarget) -> str:
    """Return the direct messages between us and the person who asked. Raises the `DeliveryError` tree."""
    try:
        opened = await client.conversations_open(users=target.user_id)
    except Exception as error:
        raise opening_error(error) from error
    return str(opened["channel"]["id"])


async def respond(url: str, chunk: SlackChunk, *, plain: bool, proxy: str = "") -> bool:
    """Show it to the one whom the link is for, and to nobody else. False: the link is good no more. Raises the
    `DeliveryError` tree."""
    webhook = AsyncWebhookClient(url, timeout=int(limits.CALL_TIMEOUT_S), logger=sdk_log, retry_handlers=[])
    if proxy or goes_direct(url):
        webhook.proxy = proxy or None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
    try:
        response = await webhook.send(
            text=chunk.plain if plain else chunk.text,
            blocks=blocks_of(chunk, plain=plain) or None,
            response_type="ephemeral",
            replace_original=False,
            unfurl_links=False,
            unfurl_media=False,
        )
    except Exception as error:
        raise delivery_error(error) from error
    status = response.status_code
    if status == HTTPStatus.OK:
        return True
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        said = (response.headers or {}).get("Retry-After", "")
        raise errors.RateLimited(float(said) if said.isdigit() else RETRY_AFTER_DEFAULT_S)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise errors.OutcomeUnknown(f"Slack answers {status} to an answer for one person")
    if status in _REFUSED_WORDS:
        raise errors.FormatRefused(f"Slack answers {status} to an answer for one person")
    return False


# An answer that is seen while it grows: a stream of Slack's own in a thread, elsewhere a post that is changed.
#
#     begin ── in a thread ────────── stream ──┐ appended to, until it is old, leads away, or Slack will not have it
#       └───── at the top level ───── post ────┴─ changed as a whole, as often as the workspace allows
#     end ───── a stream is stopped; from then on both are messages like any other
#
# A stream cannot be told to fetch nothing from where its links lead, as a post can, and a change fetches nothing. So
# a stream ends before the first link.
#
# At the top level of a direct message nothing is streamed into a thread: people look for the answer below their
# words, and a thread of its own would be another conversation.

_LONG_AGO: Final = float("-inf")
_STOPPED_BY_USER: Final = "stopped_by_user"


@dataclass(slots=True)
class _Live:
    """One answer that grows. `appended` is the text that a stream shows; None: it is a post by now, changed as a
    whole."""

    target: SlackTarget
    ts: str
    send_id: str
    begun_s: float
    appended: str | None
    changed_s: float


@dataclass(eq=False, repr=False)
class SlackStreams:
    """The streams of one app. `client` returns the connected client; its errors go through. A stream is stopped
    STREAM_LIFE_S after its beginning, before Slack does it; `stopped` is told the target and the `ts` of one that a
    person stopped."""

    client: Callable[[], AsyncWebClient]
    clock: Clock
    _: KW_ONLY
    stopped: Callable[[SlackTarget, str], None] = lambda target, ts: None
    _live: BoundedDict[tuple[str, str], _Live] = field(init=False, default_factory=lambda: BoundedDict(limits.LIVE_MAX))
    _begun_s: deque[float] = field(init=False, default_factory=lambda: deque(maxlen=limits.STREAMS_PER_MINUTE))
    _is_refused: bool = field(init=False, default=False)

    def cadence(self, target: SlackTarget) -> StreamCadence | None:
        """Return the cadence; None for a message that only one person sees, and for a place so busy that an answer
        would hardly move."""
        if target.link:
            return None
        live = len({live.target.lane for live in self._live.values()} | {target.lane})
        if self._may_stream(target):
            return StreamCadence(limits.STREAM_FIRST_S, max(limits.APPEND_EVERY_S, live * limits.APPEND_SHARE_S))
        every_s = live * limits.CHANGE_SHARE_S
        if every_s > limits.CHANGE_EVERY_MAX_S:
            return None
        return StreamCadence(limits.STREAM_FIRST_S, every_s, stop_chars_max=limits.BUTTON_VALUE_CHARS_MAX)

    async def begin(self, target: SlackTarget, chunk: SlackChunk, *, send_id: str) -> str:
        """Begin a message that grows from now on; return its `ts`. Raises the `DeliveryError` tree."""
        ts = await self._started(target, chunk) if _may_grow(chunk) and self._may_stream(target) else None
        appended = None if ts is None else settled(chunk.source)
        if ts is None:
            ts = await post(self.client(), target, chunk, send_id=send_id, plain=False)
        now_s = self.clock.monotonic_s()
        self._live[(target.channel, ts)] = _Live(target, ts, send_id, now_s, appended, now_s)
        return ts

    async def go_on(self, target: SlackTarget, chunk: SlackChunk, *, ts: str, send_id: str) -> bool:
        """Show more. False: the message is gone. Raises the `DeliveryError` tree."""
        live = self._live.get((target.channel, ts)) or self._adopted(target, ts, send_id)
        more = continuation(live.appended, chunk.source) if live.appended is not None and _may_grow(chunk) else None
        if more is not None and not self._is_old(live) and (not more or await self._appended(live, more)):
            return True
        if live.appended is not None:
            await self._stop(live)
        elif self.clock.monotonic_s() - live.changed_s < self._change_every_s():
            return True  # the next words bring these along
        live.changed_s = self.clock.monotonic_s()
        return await change(self.client(), target, chunk, ts=ts, plain=False)

    async def end(self, target: SlackTarget, *, ts: str) -> None:
        """End the stream: from now on the message may be changed, whichever process began it. Raises the
        `DeliveryError` tree."""
        live = self._live.get((target.channel, ts)) or self._adopted(target, ts, "")
        if live.appended is not None:
            await self._stop(live)
        self._live.pop((target.channel, ts), None)

    async def take_back(self, target: SlackTarget, *, ts: str) -> bool:
        """Delete it. False: that may not be. Raises the `DeliveryError` tree."""
        self._live.pop((target.channel, ts), None)
        return await take_back(self.client(), target, ts=ts)

    # --- one stream

    async def _started(self, target: SlackTarget, chunk: SlackChunk) -> str | None:
        """Start a stream and return its `ts`; None where Slack streams nothing: then it shall be a post."""
        try:
            begun = await self.client().chat_startStream(
                channel=target.channel,
                thread_ts=target.thread_ts or "",
                recipient_team_id=target.team_id,
                recipient_user_id=target.user_id,
                markdown_text=settled(chunk.source) or None,
            )
        except Exception as error:
            if not is_about_streams(error):
                raise delivery_error(error) from error
            self._is_refused |= api_word(error) in NEVER_STREAMS
            log.info("slack: no stream but a post: %s", api_word(error))
            return None
        self._begun_s.append(self.clock.monotonic_s())
        return ts_of(begun)

    async def _appended(self, live: _Live, more: str) -> bool:
        """Append to the stream. False: it is a stream no more."""
        try:
            await self.client().chat_appendStream(channel=live.target.channel, ts=live.ts, markdown_text=more)
        except Exception as error:
            if api_word(error) == _STOPPED_BY_USER:
                self.stopped(live.target, live.ts)
            live.begun_s = _LONG_AGO  # whether these words arrived is not known: the next show all of it anew
            if not is_about_streams(error):
                raise delivery_error(error) from error
            return False
        live.appended = (live.appended or "") + more
        return True

    async def _stop(self, live: _Live) -> None:
        await stop_stream(self.client(), live.target, ts=live.ts, send_id=live.send_id)
        live.appended = None

    def _adopted(self, target: SlackTarget, ts: str, send_id: str) -> _Live:
        """Adopt a message that another process began: its content is not known, so it is stopped, if it is a stream,
        and changed."""
        appended = "" if target.thread_ts else None
        return self._live.setdefault((target.channel, ts), _Live(target, ts, send_id, _LONG_AGO, appended, _LONG_AGO))

    # --- how much may go on

    def _may_stream(self, target: SlackTarget) -> bool:
        if not (target.thread_ts and target.user_id and target.team_id) or self._is_refused:
            return False
        is_crowded = len(self._begun_s) == self._begun_s.maxlen
        return not is_crowded or self.clock.monotonic_s() - self._begun_s[0] >= limits.STREAMS_WINDOW_S

    def _is_old(self, live: _Live) -> bool:
        return self.clock.monotonic_s() - live.begun_s >= limits.STREAM_LIFE_S

    def _change_every_s(self) -> float:
        return limits.CHANGE_SHARE_S * len({live.target.lane for live in self._live.values() if live.appended is None})


def _may_grow(chunk: SlackChunk) -> bool:
    """Tell whether a stream may show the chunk."""
    return bool(chunk.source) and not has_link(chunk.source)
