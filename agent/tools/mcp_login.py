"""Logins at MCP servers by OAuth: the operator makes one with a browser, the agent refreshes it.

What the SDK's provider would forget with its process, and could refresh nothing without, is in the login's file, too:
when the token ends, and who gave it. The file is readable by its owner only, and every request looks into it, so that
one process uses what another has refreshed."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from agent.limits import MCP_START_S
from gateway.contracts.errors import ConfigError

_RETURN: Final = AnyUrl("http://127.0.0.1:8425/callback")
"""The browser's last address. Nobody listens there: the operator, whose browser runs elsewhere, pastes it."""


class Login(BaseModel):
    """A kept login. `ends_at_s` is the end of its token, in seconds of the clock."""

    tokens: OAuthToken | None = None
    ends_at_s: float | None = None
    client: OAuthClientInformationFull | None = None
    issuer: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


class LoginFile:
    """`TokenStorage` in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Login:
        """Return the login, an empty one where there is none. Blocks. Raises `OSError`."""
        try:
            return Login.model_validate_json(self._path.read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            return Login()

    def change(self, **changes: Any) -> None:
        """Write the login with these changes, whole or not at all. Blocks. Raises `OSError`."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_suffix(f".{secrets.token_hex(4)}")
        text = self.read().model_copy(update=changes).model_dump_json(exclude_none=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(self._path)

    async def get_tokens(self) -> OAuthToken | None:
        return (await asyncio.to_thread(self.read)).tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends_at_s = time.time() + tokens.expires_in if tokens.expires_in else None
        await asyncio.to_thread(lambda: self.change(tokens=tokens, ends_at_s=ends_at_s))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return (await asyncio.to_thread(self.read)).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await asyncio.to_thread(lambda: self.change(client=client_info))


class KeptLogin(OAuthClientProvider):
    """The SDK's provider over such a file. Without `ask` nobody can log in, and a login that cannot be refreshed is an
    `OAuthFlowError`; with it, it gets an address and returns the one at which the browser ended."""

    def __init__(self, url: str, file: LoginFile, ask: Callable[[str], Awaitable[str]] | None = None) -> None:
        about = OAuthClientMetadata(
            client_name="Trivet",
            redirect_uris=[_RETURN],
            token_endpoint_auth_method="none",  # noqa: S106 - no secret
        )
        super().__init__(url, about, file, self._send if ask else None, self._returned if ask else None)
        self._file = file
        self._ask = ask
        self._address = ""

    async def _initialize(self) -> None:
        await super()._initialize()
        login = await asyncio.to_thread(self._file.read)
        self.context.token_expiry_time = login.ends_at_s
        self.context.oauth_metadata = login.issuer
        self.context.protected_resource_metadata = login.resource
        self._initialized = False  # so that it is read again at the next request

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        issuer, resource = self.context.oauth_metadata, self.context.protected_resource_metadata
        await asyncio.to_thread(lambda: self._file.change(issuer=issuer, resource=resource))

    async def _send(self, address: str) -> None:
        self._address = address

    async def _returned(self) -> AuthorizationCodeResult:
        assert self._ask is not None
        ended = dict(parse_qsl(urlsplit((await self._ask(self._address)).strip()).query))
        if "code" not in ended:
            why = ended.get("error_description") or ended.get("error") or "it has no code"
            raise ConfigError(f"this address says that nobody logged in: {why[:200]}")
        return AuthorizationCodeResult(code=ended["code"], state=ended.get("state"), iss=ended.get("iss"))


async def log_in(url: str, file: LoginFile, ask: Callable[[str], Awaitable[str]]) -> int:
    """Log in at the server, if it asks for that, and return the number of its tools. Raises `ConfigError`."""
    try:
        async with (
            httpx2.AsyncClient(auth=KeptLogin(url, file, ask), timeout=MCP_START_S) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return len((await client.list_tools()).tools)
    except Exception as error:
        raise ConfigError(f"{urlsplit(url).hostname} could not be logged in at: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:300]
