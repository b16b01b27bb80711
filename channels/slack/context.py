"""What was said in a thread of Slack before a message, by people and by us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from channels.normalized import Incoming, RawQuote
from channels.raw import Raw, mapping, mappings, text
from channels.slack import limits
from channels.slack.address import parse_target
from channels.slack.people import People
from channels.slack.quotes import people_in, said_before


class ThreadContext:
    """Reads threads back, for one workspace."""

    def __init__(self, client: AsyncWebClient, people: People) -> None:
        self._client = client
        self._people = people

    async def before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        """What was said before a message in its thread, oldest first. Raises what the SDK raises."""
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
    """The newest first: names are asked for few at a time."""
    return [user_id for message in reversed(thread) for user_id in people_in(message)]
