"""Everything the model may use, put together as the settings say: the composition of all tool families."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from agent.limits import FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX
from agent.running.slots import Threads
from agent.tools.approvals import Approvals
from agent.tools.browser.chromium import Chromium, NoBrowser, find_browser, open_chromium
from agent.tools.browser.tools import browser_tools
from agent.tools.database import database_tools
from agent.tools.execution.commands import execution_tools
from agent.tools.execution.sandbox import find_sandbox
from agent.tools.files.offering import offered as offered_files
from agent.tools.files.reading import READING
from agent.tools.files.sending import sending_tool
from agent.tools.files.workspace import Workspaces
from agent.tools.files.writing import WRITING
from agent.tools.lending import Lender
from agent.tools.mcp.confinement import Access, Confinement, find_confinement, not_held
from agent.tools.mcp.server import McpServer
from agent.tools.mcp.tools import McpTools
from agent.tools.permissions import Permission, Place, Policy, PolicyLine, Risk
from agent.tools.registry import ToolRegistry
from agent.tools.shelf import KeptElsewhere
from agent.tools.tool import AbsentTool, Tool
from agent.tools.web.reaching import Reach
from agent.tools.web.search import Brave, SearchEngine, Searxng, Tavily
from agent.tools.web.session import WebSession
from agent.tools.web.tools import web_tools
from gateway.config.tools import Browser, McpSetting, PolicySetting, Tools, Web
from gateway.contracts.entries import GrantRole
from gateway.contracts.errors import ConfigError
from gateway.contracts.ports import Clock, Scrubber, SpanSink
from gateway.contracts.toolsets import MCP_PREFIX

if TYPE_CHECKING:
    from gateway.store.foreign import ForeignDatabases  # its SQLAlchemy would make the start slow

MCP_HOMES: Final = "mcp"
"""Below the data directory; each server that is a program has a folder of its own there."""

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_toolbox(
    settings: Tools,
    *,
    workspaces: Workspaces,
    own: Sequence[Tool],
    databases: ForeignDatabases,
    scrubber: Scrubber,
    clock: Clock,
    approvals: Approvals | None = None,
    lender: Lender | None = None,
    elsewhere: KeptElsewhere | None = None,
    spans: SpanSink | None = None,
) -> AsyncIterator[ToolRegistry]:
    """A registry with the tools in `own` and all that the settings and this machine allow, as long as the block
    lasts. MCP servers join when they are up. Raises `ConfigError`."""
    await databases.check()
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(WebSession())
        lent = await stack.enter_async_context(WebSession(exempt=lender.addresses)) if lender else None
        files = Threads("files", FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX)
        stack.callback(files.close)
        reached, confinement, refused = await mcp_servers(settings.mcp_servers, workspaces.root.parent)
        engine = _engine(settings.web)
        if engine is not None:
            stack.push_async_callback(engine.close)
        offered = [
            execution_tools(
                await find_sandbox(hidden=[workspaces.root.parent, Path.home()]),
                workspaces,
                has_vault=lender is not None,
            ),
            web_tools(web, engine, lent=lent),
            database_tools(databases),
            browser_tools(await _browser(settings.browser, clock, stack), workspaces, files),
        ]
        registry = ToolRegistry(
            [
                *own,
                *offered_files((*READING, *WRITING), workspaces, files),
                sending_tool(workspaces, scrubber, files),
                *(tool for tools, _ in offered for tool in tools),
            ],
            scrubber,
            clock,
            policy=Policy(tuple(map(_policy_line, settings.policy_lines))),
            approvals=approvals,
            lender=lender,
            absent=[*refused, *(tool for _, absent in offered for tool in absent)],
            elsewhere=elsewhere,
            spans=spans,
        )
        servers = McpTools(reached, scrubber, clock, confinement)
        keeping = asyncio.create_task(servers.run(registry.add))
        try:
            yield registry
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])


async def _browser(setting: Browser, clock: Clock, stack: AsyncExitStack) -> Chromium | NoBrowser:
    path = find_browser(setting.mode)
    if isinstance(path, NoBrowser):
        return path
    return await stack.enter_async_context(
        open_chromium(path, Reach(), clock, is_sandboxed=setting.mode != "unsandboxed")
    )


def _engine(web: Web) -> SearchEngine | None:
    if web.lacks:
        raise ConfigError(
            f"tools.web.engine is {web.engine}, which needs {web.lacks}: set it, or leave the engine empty"
        )
    key = web.key.get_secret_value() if web.key else ""
    match web.engine:
        case "searxng":
            return Searxng(web.url)
        case "brave":
            return Brave(key, web.url) if web.url else Brave(key)
        case "tavily":
            return Tavily(key, web.url) if web.url else Tavily(key)
        case "":
            return None


def _policy_line(line: PolicySetting) -> PolicyLine:
    places = (Place(line.place),) if line.place else ()
    return PolicyLine(line.subject, Permission(line.word), tuple(map(GrantRole, line.roles)), places)


async def mcp_servers(
    settings: Sequence[McpSetting], data_dir: Path
) -> tuple[Sequence[McpServer], Confinement | None, Sequence[AbsentTool]]:
    """Those that can be had, what holds them, and those that nothing would hold: they are not started."""
    servers = [_server(setting, data_dir) for setting in settings]
    held = [server for server in servers if server.command and server.access.is_confined]
    confinement = await find_confinement(hidden=[data_dir]) if held else None
    refusals = {server.name: why for server in held if (why := not_held(server.access, confinement))}
    for name, why in refusals.items():
        _log.warning("mcp.not_started", server=name, reason=why)
    absent = [AbsentTool(f"{MCP_PREFIX}{name}", f"mcp {name}", why, Risk.EXECUTE) for name, why in refusals.items()]
    return [server for server in servers if server.name not in refusals], confinement, absent


def _server(setting: McpSetting, data_dir: Path) -> McpServer:
    if not setting.command:
        return McpServer(setting.name, url=setting.url, headers=setting.given)
    access = Access(setting.is_confined, setting.has_network, setting.readable, setting.writable)
    home = (data_dir / MCP_HOMES / setting.name).absolute()
    return McpServer(setting.name, setting.command, environment=setting.given, access=access, home=home)
