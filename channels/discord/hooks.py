"""The SDK's webhook for one interaction, which does not sleep through a long rate limit as the SDK's own would.

For the bot's own requests discord.py has a limit to that (`max_ratelimit_timeout`), for webhooks it has none: a call
would be cut while it sleeps, and nobody could say whether it had arrived.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, cast

import aiohttp
import discord
from discord.http import handle_message_parameters
from discord.ui import View
from discord.webhook.async_ import async_context

from channels.discord import limits

ORIGINAL: Final = "@original"
"""Takes the place of the id of the first message, wherever the API asks for one."""

_TOO_MANY: Final = 429


class _Impatient:
    """What the SDK needs of a session. Raises `discord.RateLimited` where Discord wants us to wait for long."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @contextlib.asynccontextmanager
    async def request(self, method: str, url: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.request(method, url, **options) as response:
            if response.status == _TOO_MANY and (wait_s := _asked_to_wait_s(response)) > limits.RATE_LIMIT_WAIT_MAX_S:
                raise discord.RateLimited(wait_s)
            yield response


def hook_of(client: discord.Client, token: str) -> discord.Webhook:
    """What the SDK makes of an interaction; its own maker of webhooks makes none that may whisper."""
    payload: Any = {"id": client.application_id, "type": discord.WebhookType.application.value, "token": token}
    made = discord.Webhook.from_state(payload, client._connection)
    made.session = cast(aiohttp.ClientSession, _Impatient(made.session))
    return made


async def change(
    hook: discord.Webhook,
    message_id: str,
    content: str,
    view: View | None,
    *,
    files: Sequence[discord.File] = discord.utils.MISSING,
) -> str:
    """Put these words into a message of an interaction, with `files` in the place of what it has; its id. As the SDK's
    `Webhook.edit_message`, which has no word for embeds. Raises what the SDK raises."""
    with handle_message_parameters(
        content=content,
        attachments=files,
        view=view,
        flags=discord.MessageFlags(suppress_embeds=True),
        allowed_mentions=discord.AllowedMentions.none(),
    ) as made:
        changed = await async_context.get().edit_webhook_message(
            hook.id,
            hook.token or "",
            cast(int, message_id),
            session=hook.session,
            proxy=hook.proxy,
            proxy_auth=hook.proxy_auth,
            payload=made.payload,
            multipart=made.multipart,
            files=made.files,
            with_components=bool(view),
        )
    return str(changed["id"])


def _asked_to_wait_s(response: aiohttp.ClientResponse) -> float:
    """0 where it does not say: the SDK reads the body."""
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0
