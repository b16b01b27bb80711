"""Did a post of ours arrive? Every post carries the send id in its metadata, and Slack shows it again; a file is
known by the name that Slack gave it when it was put up, a stream, which carries nothing, by its first words.

Slack promises no key that would make a repeated post harmless. `client_msg_id` is sent along all the same;
reports differ on whether it is heeded.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from html import unescape
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient

from channels.raw import Raw, mapping
from channels.slack import limits
from channels.slack.normalize import SlackIdentity
from channels.slack.render import SlackChunk
from gateway.contracts.errors import Untraceable

METADATA_TYPE: Final = "trivet_reply"
_OURS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "trivet/reply")


def client_msg_id(send_id: str) -> str:
    """The same for every attempt at one chunk."""
    return str(uuid.uuid5(_OURS, send_id))


def metadata_of(send_id: str) -> dict[str, Any]:
    """What says of a post which chunk it shows."""
    return {"event_type": METADATA_TYPE, "event_payload": {"id": send_id}}


async def find_post(
    client: AsyncWebClient,
    channel_id: str,
    thread_ts: str | None,
    *,
    is_it: Callable[[Raw], bool],
    since_ms: int,
) -> Raw | None:
    """The post in question, None if the history shows none.

    Raises `Untraceable` when the history goes on too long, else what the SDK raises.
    """
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
    raise Untraceable("too much was said since")


def carries(send_id: str) -> Callable[[Raw], bool]:
    """The post with this send id."""

    def is_it(message: Raw) -> bool:
        metadata = mapping(message.get("metadata"))
        payload = mapping(metadata.get("event_payload"))
        return metadata.get("event_type") == METADATA_TYPE and payload.get("id") == send_id

    return is_it


def began(chunk: SlackChunk, me: SlackIdentity) -> Callable[[Raw], bool]:
    """A stream of ours that nobody ended, and that began as this chunk does."""
    words = _letters(chunk.source or chunk.plain)

    def is_it(message: Raw) -> bool:
        is_ours = message.get("user") == me.user_id or (me.bot_id and message.get("bot_id") == me.bot_id)
        if not is_ours or message.get("metadata") or message.get("files"):
            return False
        seen = _letters(str(message.get("text", "")))[: limits.SAME_LETTERS]
        return bool(seen) and words.startswith(seen)

    return is_it


def is_whole(message: Raw, chunk: SlackChunk) -> bool:
    """It shows all of the chunk: an answer may have been cut off while it grew."""
    shown = _letters(str(message.get("text", "")))
    return shown.endswith((_letters(chunk.text), _letters(chunk.plain)))


def _letters(text: str) -> str:
    """What is left of a text whatever Slack makes of its signs."""
    return "".join(filter(str.isalnum, unescape(text)))


def shows_file(upload_id: str) -> Callable[[Raw], bool]:
    """The post that shows this file."""
    return lambda message: any(file.get("id") == upload_id for file in message.get("files") or ())
