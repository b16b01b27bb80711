"""Logins at an MCP server that asks for OAuth: the SDK's own server, with a house that knows everybody."""

from __future__ import annotations

import asyncio
import secrets
import stat
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

from agent.tools.mcp import McpLink, McpServer
from agent.tools.mcp_login import LoginFile, log_in
from agent.tools.toolbox import login_file
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError, ToolError
from tests.parts.ports import free_port
from tests.parts.product import clean_environment
from tests.parts.waiting import until

LASTS_S = 3600


@dataclass
class House(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Gives codes and tokens to everybody who asks; the tests take tokens away."""

    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    refreshing: dict[str, RefreshToken] = field(default_factory=dict)
    refreshed: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(8),
            client_id=client.client_id,
            scopes=[],
            expires_at=time.time() + 60,
            **params.model_dump(
                include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"}
            ),
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._given(client)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshed += 1
        del self.refreshing[refresh_token.token]
        return self._given(client)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _given(self, client: OAuthClientInformationFull) -> OAuthToken:
        access, again = secrets.token_hex(8), secrets.token_hex(8)
        self.tokens[access] = AccessToken(token=access, client_id=client.client_id, scopes=[])
        self.refreshing[again] = RefreshToken(token=again, client_id=client.client_id, scopes=[])
        return OAuthToken(access_token=access, refresh_token=again, expires_in=LASTS_S)


@asynccontextmanager
async def serving(house: House) -> AsyncIterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(url),
        resource_server_url=AnyHttpUrl(f"{url}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    )
    server: MCPServer = MCPServer("guarded", auth=settings, auth_server_provider=house)
    server.add_tool(lambda: "in", "enter", description="Enter.")
    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=port, log_level="error"))
    task = asyncio.create_task(running.serve())
    await until(lambda: running.started)
    yield f"{url}/mcp"
    running.should_exit = True
    await task


@pytest.fixture
async def house() -> House:
    return House()


@pytest.fixture
async def url(house: House) -> AsyncIterator[str]:
    async with serving(house) as address:
        yield address


@asynccontextmanager
async def linked(url: str, path: Path) -> AsyncIterator[McpLink]:
    """An agent process with that server."""
    link = McpLink(McpServer("guarded", url=url, login=path), SystemClock(), None)
    holding = asyncio.create_task(link.hold())
    yield link
    holding.cancel()
    await asyncio.wait([holding])


async def browse(address: str) -> str:
    """What somebody pastes whose browser shows that address."""
    async with httpx2.AsyncClient() as browser:
        return f"{(await browser.get(address)).headers['location']}\n"


async def test_a_login_is_made_once_used_refreshed_and_kept_from_others(house: House, url: str, tmp_path: Path) -> None:
    path = tmp_path / "logins" / "guarded.json"
    async with linked(url, path) as link:
        with pytest.raises(ToolError, match=r"asks for a login: .*trivet mcp login guarded"):
            await link.tools()
    file = LoginFile(path)
    assert await log_in(url, file, browse) == 1
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    async with linked(url, path) as link:
        assert [tool.name for tool in await link.tools()] == ["enter"]
        assert not (await link.call("enter", {})).is_error
    first = file.read()
    assert first.tokens is not None
    house.tokens.clear()
    file.change(ends_at_s=time.time() - 1)
    async with linked(url, path) as link, linked(url, path) as other:
        assert not (await link.call("enter", {})).is_error
        assert not (await other.call("enter", {})).is_error
    assert house.refreshed == 1
    second = file.read().tokens
    assert second is not None
    assert second.access_token != first.tokens.access_token
    assert len(house.clients) == 1


async def test_a_login_that_ended_is_told(house: House, url: str, tmp_path: Path) -> None:
    path = tmp_path / "guarded.json"
    await log_in(url, file := LoginFile(path), browse)
    house.tokens.clear()
    house.refreshing.clear()
    file.change(ends_at_s=time.time() - 1)
    async with linked(url, path) as link:
        with pytest.raises(ToolError, match="asks for a login"):
            await link.tools()
    assert len(house.clients) == 1


@pytest.mark.long
async def test_the_command_prints_the_address_and_reads_where_the_browser_ended(url: str, tmp_path: Path) -> None:
    settings = {"TRIVET_DATA_DIR": str(tmp_path), "TRIVET_TOOLS__MCP": f'["guarded={url}"]'}
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "mcp", "login", "guarded"),
        env=clean_environment() | settings,
        stdin=PIPE,
        stdout=PIPE,
        cwd=tmp_path,
    )
    assert command.stdin is not None
    assert command.stdout is not None
    while not (line := (await command.stdout.readline()).decode()).startswith("http"):
        assert line
    command.stdin.write((await browse(line.strip())).encode())
    said, _ = await command.communicate()
    assert said.decode().endswith("guarded offers 1 tools.\n")
    assert command.returncode == 0
    assert LoginFile(login_file(tmp_path, "guarded")).read().tokens is not None


async def test_nobody_who_says_no_is_logged_in(url: str, tmp_path: Path) -> None:
    async def refuse(_address: str) -> str:
        return "http://127.0.0.1:8425/callback?error=access_denied&error_description=she+said+no"

    with pytest.raises(ConfigError, match="she said no"):
        await log_in(url, LoginFile(tmp_path / "guarded.json"), refuse)
