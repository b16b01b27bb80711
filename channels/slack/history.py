"""Messages read back: those that nobody heard, and those of a thread before a message.

Replies in threads are not part of a channel's history, so every thread that moved is read by itself: those whose
root is on the newest page, and those we have listened in before."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channels.core.backfill import HistoryUnavailable, MessageOrder, RawMessage, ReadCursors
from channels.core.message import Incoming, Raw, RawQuote, mapping, mappings, text
from channels.slack import limits
from channels.slack.content import people_in, said_before
from channels.slack.errors import delivery_error
from channels.slack.normalize import parse_target
from channels.slack.workspace import ChannelMoves, SlackPeople
from gateway.contracts.errors import OutcomeUnknown, RateLimited, SendFailed
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

_TS: Final = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}")
_TYPES: Final = ("im", "mpim", "public_channel", "private_channel")
Json = dict[str, Any]


def is_ts(ts: str) -> bool:
    """Tell whether a text has the form of a timestamp; otherwise no history holds it."""
    return _TS.fullmatch(ts) is not None


def ts_order(ts: str) -> tuple[int, int]:
    """Turn a `ts` into a value to compare; as a float it would lose digits."""
    whole, _, fraction = ts.partition(".")
    return int(whole), int(fraction or 0)


def _just_before(ts: str) -> str:
    whole, fraction = ts_order(ts)
    return _text((whole, fraction - 1) if fraction else (max(0, whole - 1), 999_999))


ORDER: Final = MessageOrder(key=ts_order, before=_just_before)


def place_of(channel_id: str, event: Raw) -> str:
    """Return the place a message belongs to: its thread if it is a reply, otherwise the channel."""
    thread_ts = str(event.get("thread_ts") or "")
    return f"{channel_id}/{thread_ts}" if is_ts(thread_ts) and thread_ts != event.get("ts") else channel_id


class SlackHistory:
    """The history of one workspace."""

    def __init__(self, client: AsyncWebClient, cursors: ReadCursors, clock: Clock, moves: ChannelMoves) -> None:
        self._client = client
        self._cursors = cursors
        self._moves = moves
        self._clock = clock
        self._rooms: dict[str, Raw] = {}

    async def rooms(self) -> Sequence[str]:
        """List the conversations that we are a member of, by their first ids. Raises `HistoryUnavailable` and
        `BusUnavailable`."""
        await self._moves.load()
        self._rooms = dict(await self._channels())
        return tuple(self._rooms)

    async def missed(self, room: str) -> Sequence[RawMessage[Raw]]:
        """Read the messages of a channel and its threads after the cursors, oldest first. Raises
        `HistoryUnavailable`."""
        events = sorted(await self._since(room), key=lambda event: ts_order(event["ts"]))
        named: Json = {"type": "message", "channel": room}
        channel = self._rooms.get(room)
        if channel is not None:
            named["channel_type"] = _type_of(channel)
        around = {"is_ext_shared_channel": channel is not None and channel.get("is_ext_shared") is True}
        return [RawMessage(place_of(room, each), each["ts"], {**around, "event": {**each, **named}}) for each in events]

    async def _channels(self) -> list[tuple[str, Raw]]:
        """List the channels that we are a member of, those with the most recent cursors first."""
        recent = [place.partition("/")[0] for place in reversed(self._cursors.places)]
        rank = {channel_id: place for place, channel_id in reversed(list(enumerate(recent)))}
        found = await self._listed(",".join(_TYPES))
        if not found:  # one scope that is missing refuses all
            for kind in _TYPES:
                found |= await self._listed(kind)
        ranked = sorted(found.items(), key=lambda item: rank.get(item[0], len(rank)))
        if len(ranked) > limits.HISTORY_PLACES_MAX:
            log.warning(
                "slack: of %d channels the %d most recent are read back", len(ranked), limits.HISTORY_PLACES_MAX
            )
        return ranked[: limits.HISTORY_PLACES_MAX]

    async def _listed(self, kinds: str) -> dict[str, Raw]:
        found: dict[str, Raw] = {}
        cursor = ""
        for _ in range(limits.HISTORY_PAGES_MAX):
            page = await self._call(
                self._client.users_conversations, types=kinds, exclude_archived=True, limit=200, cursor=cursor or None
            )
            found |= {self._moves.first(text(each.get("id"))): each for each in mappings(page.get("channels"))}
            cursor = _next_cursor(page)
            if not cursor:
                break
        return found

    async def _since(self, channel_id: str) -> list[Json]:
        mark = self._mark(channel_id)
        fresh: list[Json] = []
        moved: set[str] = set(self._threads_heard(channel_id))
        latest = ""
        for _ in range(limits.HISTORY_PAGES_MAX):
            page = await self._call(
                self._client.conversations_history,
                channel=self._moves.newest(channel_id),
                limit=limits.HISTORY_PAGE,
                latest=latest or None,
            )
            messages = _messages(page)
            news = [message for message in messages if ts_order(message["ts"]) > mark]
            fresh += news
            moved |= {message["ts"] for message in messages if self._has_moved(channel_id, message)}
            if not page.get("has_more") or not messages or len(news) < len(messages):
                break
            latest = messages[-1]["ts"]
        else:
            log.warning("slack: of what was missed in %s only the newest %d are read", channel_id, len(fresh))
        for thread_ts in sorted(moved, key=ts_order)[-limits.HISTORY_THREADS_MAX :]:
            fresh += await self._replies(channel_id, thread_ts)
        return list({message["ts"]: message for message in fresh}.values())

    async def _replies(self, channel_id: str, thread_ts: str) -> list[Json]:
        mark = self._mark(f"{channel_id}/{thread_ts}")
        fresh: list[Json] = []
        cursor = ""
        for _ in range(limits.HISTORY_PAGES_MAX):
            page = await self._call(
                self._client.conversations_replies,
                channel=self._moves.newest(channel_id),
                ts=thread_ts,
                oldest=_text(mark),
                limit=limits.HISTORY_PAGE,
                cursor=cursor or None,
            )
            messages = _messages(page)
            fresh += [each for each in messages if each["ts"] != thread_ts and ts_order(each["ts"]) > mark]
            cursor = _next_cursor(page)
            if not cursor:
                return fresh
        log.warning("slack: of what was missed in thread %s only the oldest %d are read", thread_ts, len(fresh))
        return fresh

    def _threads_heard(self, channel_id: str) -> Iterable[str]:
        for place in self._cursors.places:
            channel, slash, thread_ts = place.partition("/")
            if slash and channel == channel_id and ts_order(self._cursors.of(place)) >= self._oldest():
                yield thread_ts

    def _has_moved(self, channel_id: str, message: Raw) -> bool:
        latest_reply = text(message.get("latest_reply"))
        return is_ts(latest_reply) and ts_order(latest_reply) > self._mark(f"{channel_id}/{message['ts']}")

    def _mark(self, place: str) -> tuple[int, int]:
        return max(ts_order(self._cursors.of(place) or "0"), self._oldest())

    def _oldest(self) -> tuple[int, int]:
        return self._clock.now_ms() // 1000 - limits.HISTORY_AGE_MAX_S, 0

    async def _call(self, call: Callable[..., Awaitable[AsyncSlackResponse]], **arguments: Any) -> Json:
        """Make a call and return the answer's fields; none where Slack refuses this one place or a permission is
        missing."""
        for _ in range(limits.HISTORY_RATE_LIMITS_MAX):
            try:
                answer = await call(**arguments)
                return answer.data if isinstance(answer.data, dict) else {}
            except Exception as error:
                refusal = delivery_error(error)
                if isinstance(refusal, SendFailed | OutcomeUnknown):
                    raise HistoryUnavailable(str(refusal)) from error
                if not isinstance(refusal, RateLimited):
                    log.warning("slack: a place is not read back: %s", refusal)
                    return {}
                await asyncio.sleep(refusal.retry_after_s)
        raise HistoryUnavailable("rate limited again and again")


def _messages(page: Json) -> list[Json]:
    """List the messages of a page that have a time."""
    return [dict(each) for each in mappings(page.get("messages")) if is_ts(text(each.get("ts")))]


def _type_of(channel: Raw) -> str:
    if channel.get("is_im"):
        return "im"
    if channel.get("is_mpim"):
        return "mpim"
    return "group" if channel.get("is_private") else "channel"


def _next_cursor(page: Json) -> str:
    return text(mapping(page.get("response_metadata")).get("next_cursor"))


def _text(order: tuple[int, int]) -> str:
    return f"{order[0]}.{order[1]:06d}"


# The earlier messages, of people and of us, in a thread of Slack.


class SlackThreadContext:
    """The earlier messages of threads, for one workspace."""

    def __init__(self, client: AsyncWebClient, people: SlackPeople) -> None:
        self._client = client
        self._people = people

    async def before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """Read the messages before a message in its thread, oldest first. Raises what the SDK raises."""
        target = parse_target(incoming.address.target)
        if target.thread_ts is None or target.message_ts is None:
            return ()
        thread = await self._replies(target.channel, target.thread_ts, before=target.message_ts)
        names = {user_id: person.name for user_id, person in (await self._people.known(_authors(thread))).items()}
        return said_before(thread, target.message_ts, names, quotes_max=limits.THREAD_QUOTES_MAX)

    async def _replies(self, channel: str, thread_ts: str, *, before: str) -> list[Raw]:
        found: list[Raw] = []
        cursor: str | None = None
        for _ in range(limits.THREAD_PAGES_MAX):
            page: Any = await self._client.conversations_replies(
                channel=channel, ts=thread_ts, latest=before, limit=limits.THREAD_PAGE, cursor=cursor
            )
            found += mappings(page.get("messages"))
            cursor = text(mapping(page.get("response_metadata")).get("next_cursor")) or None
            if cursor is None:
                break
        return found


def _authors(thread: Sequence[Raw]) -> Sequence[str]:
    """List the authors, the newest first: names are asked for few at a time."""
    return [user_id for message in reversed(thread) for user_id in people_in(message)]
