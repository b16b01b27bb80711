"""Where the answer to a slash command goes.

    to the one who asked    his link ─ no good any more ─▶ a direct message
    to everybody there      a post ─ we are not there ─▶ his link ─ no good any more ─▶ a direct message

A link (Slack's `response_url`) takes five answers within half an hour, into places that we need not be in. Whoever
knows it can speak in our name, so it lies on the bus for as long as it is good, and addresses only name it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook import WebhookResponse
from slack_sdk.webhook.async_client import AsyncWebhookClient

from channels.proxies import goes_direct
from channels.slack import limits
from channels.slack.address import SlackTarget
from channels.slack.blocks import blocks_of
from channels.slack.errors import RETRY_AFTER_DEFAULT_S, delivery_error, opening_error
from channels.slack.logs import sdk_log
from channels.slack.posting import post
from channels.slack.render import SlackChunk
from gateway.bus.places import Places
from gateway.contracts.errors import AddressDead, BusUnavailable, FormatRefused, OutcomeUnknown, RateLimited, SendFailed

_REFUSED_WORDS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


class Links:
    """The links of one installation, which `account` names. Raises `BusUnavailable`."""

    def __init__(self, places: Places, account: Callable[[], str], *, proxy: str = "") -> None:
        self._places = places
        self._account = account
        self.proxy = proxy

    async def keep(self, name: str, url: str) -> None:
        if url:
            await self._places.keep_link(f"{self._account()}:{name}", url, ttl_s=limits.LINK_TTL_S)

    async def find(self, name: str) -> str:
        """Empty for one that is good no more."""
        return await self._places.link(f"{self._account()}:{name}")


async def answer(
    client: AsyncWebClient, links: Links, target: SlackTarget, chunk: SlackChunk, *, send_id: str, plain: bool
) -> tuple[str, ...]:
    """Say it where the one who asked sees it; the `ts`, if it has one. Raises the `DeliveryError` tree."""
    if not target.is_aside:
        try:
            return (await post(client, target, chunk, send_id=send_id, plain=plain),)
        except AddressDead:
            if target.user_id is None:
                raise
    if await _through(links, target, chunk, plain=plain):
        return ()
    direct = SlackTarget(await direct_channel(client, target))
    return (await post(client, direct, chunk, send_id=send_id, plain=plain),)


async def direct_channel(client: AsyncWebClient, target: SlackTarget) -> str:
    """The direct messages between us and the one who asked. Raises the `DeliveryError` tree."""
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
    return _is_shown(response)


async def _through(links: Links, target: SlackTarget, chunk: SlackChunk, *, plain: bool) -> bool:
    try:
        url = await links.find(target.link or "")
    except BusUnavailable as error:
        raise SendFailed("the bus is away, and with it the way to the one who asked") from error
    return bool(url) and await respond(url, chunk, plain=plain, proxy=links.proxy)


def _is_shown(response: WebhookResponse) -> bool:
    status = response.status_code
    if status == HTTPStatus.OK:
        return True
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        said = (response.headers or {}).get("Retry-After", "")
        raise RateLimited(float(said) if said.isdigit() else RETRY_AFTER_DEFAULT_S)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise OutcomeUnknown(f"Slack answers {status} to an answer for one person")
    if status in _REFUSED_WORDS:
        raise FormatRefused(f"Slack answers {status} to an answer for one person")
    return False
