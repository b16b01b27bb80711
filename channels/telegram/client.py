"""The SDK's `Bot` with two HTTP clients, one for calls and one for the poll that waits, and the bot's address.

The token never appears in a message of ours; the HTTP client, which would log it with every address, is silenced.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from telegram import Bot
from telegram.error import NetworkError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBUserWarning

from channels.core.downloads import goes_direct
from channels.core.message import integer, mapping
from channels.telegram import limits

# The object around every answer of a Bot API server. Pure.


def status_in(body: bytes) -> int | None:
    """Read the status of HTTP that an answer carries in itself: 200, or its `error_code`. None for a body that is no
    such object."""
    try:
        response = mapping(json.loads(body))
    except (ValueError, RecursionError):
        return None
    if response.get("ok") is True:
        return HTTPStatus.OK if "result" in response else None
    code = integer(response.get("error_code")) or 0
    return (code if code >= HTTPStatus.BAD_REQUEST else HTTPStatus.INTERNAL_SERVER_ERROR) if "ok" in response else None


@dataclass(frozen=True, slots=True)
class TelegramEndpoint:
    """The address and the token of one bot. `api_base` is the Bot API's address without `/bot`. With a `hook_url`
    Telegram calls us there, otherwise we poll. `local_files` is the folder in which a Bot API server of ours keeps
    the files that people sent; `bots` are other bots that are heard."""

    token: str = field(repr=False)
    api_base: str
    hook_url: str = ""
    proxy: str = field(default="", repr=False)
    local_files: Path | None = None
    bots: frozenset[str] = frozenset()

    @property
    def bot_id(self) -> str:
        """Return the first part of the token, which is no secret."""
        return self.token.partition(":")[0]

    @property
    def account(self) -> str:
        """Return the account, after which cursors, buckets and places are named."""
        return f"telegram:{self.bot_id}"

    @property
    def files_base(self) -> str:
        """Return the beginning of the addresses of files; the token is in it."""
        return f"{self.api_base}/file/bot{self.token}"


class TelegramClient:
    """`bot` makes calls while the client is open."""

    def __init__(self, endpoint: TelegramEndpoint) -> None:
        _silence_the_sdk()
        self._calls = _http(limits.CONNECTIONS_MAX, endpoint)
        self._polls = _http(1, endpoint)
        self.bot = Bot(
            endpoint.token,
            base_url=f"{endpoint.api_base}/bot",
            base_file_url=f"{endpoint.api_base}/file/bot",
            request=self._calls,
            get_updates_request=self._polls,
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep connections inside the context; it may be entered again."""
        await self._polls.initialize()
        await self._calls.initialize()
        try:
            yield
        finally:
            await self._polls.shutdown()
            await self._calls.shutdown()


class _Http(HTTPXRequest):
    """The SDK's HTTP client with another test of success: the SDK believes the status of HTTP, but the envelope
    decides, and whether a Bot API server wrote one."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Do the request as the SDK says. An HTML page of a proxy between us and the server says nothing of
        the token."""
        status, body = await super().do_request(*args, **kwargs)
        said = status_in(body)
        if said is None:
            raise NetworkError(f"{_phrase(status)} ({status}), and not from a Bot API server")
        return said, body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _http(connections_max: int, endpoint: TelegramEndpoint) -> _Http:
    return _Http(
        connection_pool_size=connections_max,
        read_timeout=limits.CALL_TIMEOUT_S,
        write_timeout=limits.CALL_TIMEOUT_S,
        connect_timeout=limits.CONNECT_TIMEOUT_S,
        pool_timeout=limits.CALL_TIMEOUT_S,
        proxy=endpoint.proxy or None,
        httpx_kwargs={
            "trust_env": not endpoint.proxy and not goes_direct(endpoint.api_base),
            "limits": httpx.Limits(
                max_connections=connections_max, max_keepalive_connections=limits.IDLE_CONNECTIONS_MAX
            ),
        },
    )


def _silence_the_sdk() -> None:
    """Silence httpx, which logs every address, and with it the token, and two warnings of the SDK that concern its
    other users."""
    for name in ("httpx", "httpcore", "telegram"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", r"Please use 'Bot\.get(Updates|Chat)'", PTBUserWarning)
    warnings.filterwarnings("ignore", ".*attribute `retry_after`", PTBUserWarning)
