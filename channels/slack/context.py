"""What was said in a thread before we were called into it, for the first message that a lane has of it.

Each of us in a thread has a lane of his own, and none of them knows what was said before its first message there; nor
what our own message said under which a thread was begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient

from channels.normalized import Incoming, RawQuote
from channels.raw import Raw, mapping, mappings, text
from channels.slack import limits
from channels.slack.address import parse_target
from channels.slack.errors import delivery_error
from channels.slack.people import People
from channels.slack.quotes import people_in, said_before
from channels.threads import Threads

log = logging.getLogger(__name__)

_REMEMBERED: Final = 500  # messages whose quotes are kept for an edit of them, or for their second event


class ThreadContext:
    """For one workspace. `read` holds who has been told of which thread. Raises `BusUnavailable`, and nothing for a
    Slack that does not answer: a message without its context is still a message."""

    def __init__(self, client: AsyncWebClient, people: People, read: Threads) -> None:
        self._client = client
        self._people = people
        self._read = read
        self._found: OrderedDict[str, tuple[RawQuote, ...]] = OrderedDict()

    async def of(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """What goes along with a message; an edit has what the message had."""
        if incoming.id in self._found or incoming.is_edit:
            return self._found.get(incoming.id, ())
        target = parse_target(incoming.address.target)
        if target.thread_ts is None or target.message_ts is None:
            return ()
        if await self._read.has_joined(target.channel, _reader(target.thread_ts, incoming)):
            return ()
        try:
            async with asyncio.timeout(limits.THREAD_WAIT_S):
                thread = await self._replies(target.channel, target.thread_ts, before=target.message_ts)
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: context is never worth one
            log.info("slack: thread %s is not read back: %s", target.thread_ts, delivery_error(error))
            return ()
        names = {user_id: person.name for user_id, person in (await self._people.known(_authors(thread))).items()}
        quotes = said_before(thread, target.message_ts, names, quotes_max=limits.THREAD_QUOTES_MAX)
        self._remember(incoming.id, quotes)
        return quotes

    async def taken(self, incoming: Incoming) -> None:
        """The lane has it: it is told of this thread no more. Raises `BusUnavailable`."""
        target = parse_target(incoming.address.target)
        if target.thread_ts is not None and incoming.id in self._found:
            await self._read.join(target.channel, _reader(target.thread_ts, incoming))

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

    def _remember(self, message_id: str, quotes: tuple[RawQuote, ...]) -> None:
        self._found[message_id] = quotes
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)


def _reader(thread_ts: str, incoming: Incoming) -> str:
    return f"{thread_ts}:{incoming.user_id}"


def _authors(thread: Sequence[Raw]) -> Sequence[str]:
    """The newest first: names are asked for few at a time."""
    return [user_id for message in reversed(thread) for user_id in people_in(message)]
