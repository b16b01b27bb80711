"""One MCP server: started when it is needed, started again when it died, with growing pauses.

The SDK's connection belongs to the task that opened it, so each server has a task of its own (`hold`), and the
tools only borrow the connection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from agent.limits import MCP_BACKOFF_S, MCP_CALL_S, MCP_START_S, MCP_TOOLS_MAX
from agent.tools.mcp.confinement import NOT_TOLD, Access, Confinement, Launch
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as RemoteTool

_log = structlog.get_logger(__name__)
_PAGES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class McpServer:
    """How to reach a server: `command` starts one that speaks on its standard streams, `url` is one that speaks
    streamable HTTP. `environment` is all the started one gets, besides a path, a home and a locale; `access` is what it
    reaches, and `home` the folder that is its own."""

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = MCP_CALL_S
    access: Access = NOT_TOLD
    home: Path = Path("/")


class McpLink:
    """The connection to one server."""

    def __init__(self, server: McpServer, clock: Clock, confinement: Confinement | None) -> None:
        self.server = server
        self._confinement = confinement
        self._clock = clock
        self._wanted = asyncio.Event()
        self._lost = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._client: asyncio.Future[Client] | None = None
        self._failures = 0
        self._not_before_s = 0.0

    async def hold(self) -> None:
        """Keep the server while somebody wants it. Runs until it is cancelled; then the server is stopped."""
        while True:
            await self._wanted.wait()
            opening = self._client
            assert opening is not None
            try:
                await self._serve(opening)
            except Exception as error:  # noqa: BLE001 - a supervisor's child: counted, logged, started again later
                self._ended(error, was_connected=opening.done())
            finally:
                if not opening.done():
                    opening.set_exception(ToolError(f"the MCP server {self.server.name} cannot be reached"))
                    opening.exception()  # whoever waits hears it; nobody may be waiting
                self._client = None
                self._wanted.clear()
                self._idle.set()

    async def tools(self) -> list[RemoteTool]:
        """What the server offers, starting it if need be. Raises `ToolError`."""
        client = await self._connection()
        found: list[RemoteTool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(MCP_START_S):
                for _ in range(_PAGES_MAX):
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if not cursor or len(found) >= MCP_TOOLS_MAX:
                        break
        except TimeoutError as error:
            self._lost.set()
            raise ToolError(f"the MCP server {self.server.name} did not list its tools in time") from error
        except Exception as error:
            self._lost.set()
            raise ToolError(f"the MCP server {self.server.name} could not list its tools") from error
        return found[:MCP_TOOLS_MAX]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one tool, starting the server if need be. A call is never repeated: it may have done something.
        Raises `ToolError`."""
        from mcp import MCPError  # noqa: PLC0415 - loaded with the first connection
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT  # noqa: PLC0415 - likewise

        client = await self._connection()
        try:
            async with asyncio.timeout(self.server.timeout_s):
                return await client.call_tool(tool, dict(arguments), read_timeout_seconds=self.server.timeout_s)
        except TimeoutError as error:
            raise ToolError(f"{tool} did not finish within {self.server.timeout_s:g} s") from error
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise ToolError(f"{tool} did not finish within {self.server.timeout_s:g} s") from error
            if error.code != CONNECTION_CLOSED:
                raise ToolError(f"{tool} was refused: {error.message}") from error
            raise self._gone(error) from error
        except Exception as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> ToolError:
        _log.warning("mcp.lost", server=self.server.name, reason=type(error).__name__)
        self._lost.set()
        return ToolError(f"the MCP server {self.server.name} ended during the call; it is started again at the next")

    async def _connection(self) -> Client:
        """The live connection, or a new one. Raises `ToolError` while a failed server has its pause."""
        if self._client is None or self._lost.is_set():
            await self._idle.wait()  # the old one is closed first
            wait_s = self._not_before_s - self._clock.monotonic_s()
            if wait_s > 0:
                raise ToolError(f"the MCP server {self.server.name} failed; it is tried again in {wait_s:.0f} s")
            if self._client is None:  # several may have waited
                self._lost.clear()
                self._idle.clear()
                self._client = asyncio.get_running_loop().create_future()
                self._wanted.set()
        opening = self._client
        try:
            async with asyncio.timeout(MCP_START_S):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            raise ToolError(f"the MCP server {self.server.name} did not start in time") from error

    async def _serve(self, opening: asyncio.Future[Client]) -> None:
        async with _open(self.server, self._confinement) as client:
            self._failures = 0
            opening.set_result(client)
            _log.info("mcp.connected", server=self.server.name)
            await self._lost.wait()

    def _ended(self, error: Exception, *, was_connected: bool) -> None:
        """A server that never came up has to wait; one that died is started again at once."""
        first_s, most_s = MCP_BACKOFF_S
        pause_s = 0.0 if was_connected else min(first_s * 2**self._failures, most_s)
        self._failures += not was_connected
        self._not_before_s = self._clock.monotonic_s() + pause_s
        _log.warning("mcp.ended", server=self.server.name, reason=type(error).__name__, pause_s=pause_s)


@asynccontextmanager
async def _open(server: McpServer, confinement: Confinement | None) -> AsyncIterator[Client]:
    """An open connection. The SDK is loaded here: a second of work and 50 MB that only its users shall pay."""
    import httpx2  # noqa: PLC0415
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        if server.command:
            # What it says on its standard error may hold anything, and nobody has scrubbed it.
            silence = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))  # noqa: ASYNC230, SIM115 - never blocks, closed with the stack
            launch = await asyncio.to_thread(_launch, server, confinement)
            parameters = StdioServerParameters(
                command=launch.program, args=list(launch.arguments), env=dict(launch.environment)
            )
            transport = stdio_client(parameters, errlog=silence)
        else:
            timeout = httpx2.Timeout(MCP_START_S, read=server.timeout_s + MCP_START_S)
            http = httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout)
            await stack.enter_async_context(http)
            transport = streamable_http_client(server.url, http_client=http)
        async with asyncio.timeout(MCP_START_S):
            client = await stack.enter_async_context(Client(transport))
        yield client


def _launch(server: McpServer, confinement: Confinement | None) -> Launch:
    """How it is started. Raises `OSError`, also where nothing could hold a server that is to be held. Blocks."""
    if not server.access.is_confined:
        program, *arguments = server.command
        return Launch(program, tuple(arguments), server.environment)
    if confinement is None:
        raise PermissionError("nothing holds it here")
    server.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return confinement.launch(server.command, server.environment, server.access, server.home)
