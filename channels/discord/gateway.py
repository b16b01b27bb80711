"""Which bot, at which Discord: where its gateway is, over how many connections, and whether a new one is allowed.

discord.py is pointed at its servers through two class attributes, which it reads when a request or a
connection is made; one process therefore speaks to one Discord.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from channels.raw import Raw, integer, mapping, text

_ASK_TIMEOUT: Final = aiohttp.ClientTimeout(total=10)
_USER_AGENT: Final = "DiscordBot (Trivet, 1)"  # Discord asks for the form, and refuses other clients


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An empty `gateway_url` means the one that the API names. `shards`: 0 for as many as it recommends."""

    token: str = field(repr=False)
    api_base: str
    gateway_url: str
    shards: int = 0
    public_key: str = ""
    """Of the application whose interactions come by HTTP; empty where they come over the gateway."""

    proxy: str = field(default="", repr=False)
    bots: frozenset[str] = frozenset()
    """The other bots that are heard."""

    begins_threads: bool = False
    """A mention in a channel begins a thread."""

    @property
    def lease(self) -> str:
        """The name of the right to listen: one per token, which it does not give away."""
        return f"gateway:discord:{hashlib.blake2s(self.token.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Start:
    """What `GET /gateway/bot` says of new sessions. `remaining` is None where nobody counts them."""

    url: str = ""
    shards: int = 1
    remaining: int | None = None
    reset_after_s: float = 0.0
    concurrency: int = 1


class NoSessionLeft(Exception):
    """The sessions of the day are spent: whoever begins one more loses the token."""

    def __init__(self, reset_after_s: float) -> None:
        super().__init__("Discord allows no new session today")
        self.reset_after_s = reset_after_s


def point_rest_at(api_base: str) -> None:
    """From now on requests go to the REST API at `api_base`."""
    Route.BASE = api_base


async def prepare(endpoint: Endpoint) -> Start:
    """Point the SDK at its servers; what the API says of sessions. Raises `NoSessionLeft`, and what aiohttp raises."""
    point_rest_at(endpoint.api_base)
    async with aiohttp.ClientSession(timeout=_ASK_TIMEOUT, headers={"User-Agent": _USER_AGENT}) as session:
        start = _start_of(await _asked(session, endpoint, "/gateway/bot"))
        url = endpoint.gateway_url or start.url or text((await _asked(session, endpoint, "/gateway")).get("url"))
    if url:
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url)
    shards = endpoint.shards or start.shards
    if start.remaining is not None and start.remaining < shards:
        raise NoSessionLeft(start.reset_after_s)
    return Start(url, shards, start.remaining, start.reset_after_s, start.concurrency)


async def _asked(session: aiohttp.ClientSession, endpoint: Endpoint, path: str) -> Raw:
    """The answer; nothing of one that is no answer, since the login will say why."""
    headers = {"Authorization": f"Bot {endpoint.token}"}
    async with session.get(f"{endpoint.api_base}{path}", headers=headers, proxy=endpoint.proxy or None) as answer:
        if not answer.ok:
            return {}
        found: Any = await answer.json(content_type=None)
        return mapping(found)


def _start_of(said: Raw) -> Start:
    limit = mapping(said.get("session_start_limit"))
    return Start(
        url=text(said.get("url")),
        shards=max(1, integer(said.get("shards")) or 1),
        remaining=integer(limit.get("remaining")),
        reset_after_s=(integer(limit.get("reset_after")) or 0) / 1000,
        concurrency=max(1, integer(limit.get("max_concurrency")) or 1),
    )
