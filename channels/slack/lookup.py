"""Did a post of ours arrive? Every post carries the send id in its metadata, and Slack shows it again."""

from __future__ import annotations

from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient

from channels.slack import limits

METADATA_TYPE: Final = "trivet_reply"


async def find_post(
    client: AsyncWebClient, channel_id: str, thread_ts: str | None, *, send_id: str, since_ms: int
) -> tuple[str, ...] | None:
    """The `ts` of the post that carries `send_id`, None if there is none. Raises what the SDK raises."""
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
            if _send_id(message) == send_id:
                return (str(message["ts"]),)
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            break
    return None


def _send_id(message: dict[str, Any]) -> str | None:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != METADATA_TYPE:
        return None
    return str((metadata.get("event_payload") or {}).get("id"))
