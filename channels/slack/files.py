"""A file for Slack, in three steps: ask for an address, put the bytes there, share what was put up.

Until it is shared nobody sees it, so the first two steps may be repeated; the third may not.
"""

from __future__ import annotations

from typing import Final

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from channels.proxies import goes_direct
from channels.slack import limits
from channels.slack.address import SlackTarget
from channels.slack.render import SlackFile
from gateway.contracts.errors import FormatRefused, SendFailed

_OK: Final = 200
_SERVER_FAULT: Final = 500


async def put_up(client: AsyncWebClient, file: SlackFile, *, proxy: str = "") -> str:
    """Put the bytes up; Slack's name for them. Raises what the SDK and aiohttp raise, `FormatRefused`, `SendFailed`."""
    promised = await client.files_getUploadURLExternal(filename=file.name, length=len(file.content))
    url = str(promised["upload_url"])
    timeout = aiohttp.ClientTimeout(total=limits.UPLOAD_TIMEOUT_S, sock_connect=limits.CONNECT_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=not proxy and not goes_direct(url)) as session,
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
    """Show what was put up. Slack does that a little later, so there is no message to name: the file's name stands
    for it. Raises what the SDK raises."""
    await client.files_completeUploadExternal(
        files=[{"id": file.upload_id, "title": file.name}],
        channel_id=target.channel,
        thread_ts=target.thread_ts,
        initial_comment=file.comment or None,
    )
    return (file.upload_id,)
