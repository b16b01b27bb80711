"""All tools of the model, put together as the settings say: the composition of all tool families."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from jsonschema import Draft202012Validator, SchemaError

from agent.limits import FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX, QUERIES_MAX, QUERIES_OWNER_MAX
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.approvals import Approvals
from agent.tools.browser import Chromium, NoBrowser, browser_tools, find_browser, open_chromium
from agent.tools.exec.sandbox import find_sandbox
from agent.tools.exec.tools import execution_tools, no_skills
from agent.tools.files.send_file import sending_tool
from agent.tools.files.tools import READING, WRITING, FileTool
from agent.tools.files.workspace import Workspaces
from agent.tools.mcp import McpServer, McpTools
from agent.tools.mcp_confinement import ServerAccess, ServerConfinement, find_confinement, not_held
from agent.tools.policy import Permission, Policy, PolicyLine, Risk, Visibility
from agent.tools.registry import ToolRegistry
from agent.tools.results import KeptElsewhere
from agent.tools.secrets import SecretInjector
from agent.tools.tool import AbsentTool, Tool, ToolContext
from agent.tools.web.session import WebSession
from agent.tools.web.tools import Keyless, SearchApi, SearchEngine, web_tools
from gateway.config import process_environment
from gateway.config.tools import BrowserSettings, McpSetting, PolicySetting, ToolSettings, WebSettings
from gateway.contracts.errors import ConfigError, QueryRefused, ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, SpanSink
from gateway.contracts.profiles import MCP_PREFIX
from gateway.contracts.sessions import GrantRole
from gateway.limits import FOREIGN_STATEMENT_CHARS_MAX
from gateway.public_web import PublicConnector
from gateway.scrub import Scrubber
from gateway.tasks import SharedThreads, Slots, alongside

if TYPE_CHECKING:
    from gateway.store.foreign import ForeignDatabases, Rows


# db_query: questions to the operator's databases.


_NAME: Final = "db_query"
_CATEGORY: Final = "databases"


def database_tools(databases: ForeignDatabases) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """Return db_query if a database is configured. The policy does not count it as reading, because not every guest may
    see the operator's data."""
    if not databases.names:
        return (), (AbsentTool(_NAME, _CATEGORY, "no database is configured", Risk.READ),)
    spec = ToolSpec(
        _NAME,
        "Ask a database with one SQL statement that only reads: SELECT, WITH or VALUES.",
        object_schema(
            {
                "database": {"type": "string", "enum": list(databases.names)},
                "statement": text_schema(FOREIGN_STATEMENT_CHARS_MAX),
            },
            "database",
            "statement",
        ),
    )

    slots = Slots(QUERIES_MAX, QUERIES_OWNER_MAX)

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        try:
            async with slots.held(context.owner):
                return as_table(await databases.ask(arguments["database"], arguments["statement"]))
        except QueryRefused as error:
            raise ToolError(str(error)) from error

    return (Tool(spec, _CATEGORY, Risk.NETWORK, run, foreign=True),), ()


def as_table(found: Rows) -> str:
    """Format rows as a Markdown table, with a last line that counts them."""
    if not found.columns:
        return "The statement gave no rows."
    lines = [_line(found.columns), _line(["---"] * len(found.columns)), *map(_line, found.rows)]
    count = f"{len(found.rows)} {'row' if len(found.rows) == 1 else 'rows'}"
    return "\n".join([*lines, "", f"({'only the first ' if found.is_cut else ''}{count})"])


def _line(cells: Sequence[str | None]) -> str:
    shown = ("NULL" if cell is None else cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(shown)} |"


# The file tools as a registry has them: each on the workspace of the calling conversation, in a thread.


def offered_files(tools: Iterable[FileTool], homes: Workspaces, threads: SharedThreads) -> tuple[Tool, ...]:
    """Offer the file tools of a workspace. Those that only read may quote the placeholder of a secret; the others would
    write it into a file. Text that they read counts as foreign, because a workspace also holds files that people sent
    and pages that were fetched."""

    def one(tool: FileTool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            context.reading.is_foreign |= not tool.changes_files
            return await threads.call(context.owner, partial(tool.work, homes.of(context.key), arguments))

        return Tool(
            ToolSpec(tool.name, tool.description, tool.schema),
            "files",
            Risk.WRITE if tool.changes_files else Risk.READ,
            run,
            locks=tool.locks,
            quotes=not tool.changes_files,
            instead=tool.instead,
        )

    return tuple(map(one, tools))


def _add_plugins(registry: ToolRegistry, tools: Iterable[Tool]) -> None:
    """Add the tools of plug-ins one by one; one that cannot be offered is logged and left out."""
    for tool in tools:
        if tool.spec.name in registry.names or tool.spec.name.startswith(MCP_PREFIX):
            _log.error("plugin.broken", reason=f"the tool {tool.spec.name} is left out: there is one of that name")
            continue
        try:
            Draft202012Validator.check_schema(tool.checked)
        except SchemaError as error:
            _log.error("plugin.broken", reason=f"the tool {tool.spec.name} is left out: {error.message}")
        else:
            registry.add([tool])


MCP_HOMES: Final = "mcp"
MCP_LOGINS: Final = "mcp-logins"
"""Below the data directory; each server that is a program has a folder of its own there."""

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_toolbox(
    settings: ToolSettings,
    *,
    workspaces: Workspaces,
    own: Sequence[Tool],
    plugins: Iterable[Tool] = (),
    databases: ForeignDatabases,
    scrubber: Scrubber,
    clock: Clock,
    approvals: Approvals | None = None,
    lender: SecretInjector | None = None,
    elsewhere: KeptElsewhere | None = None,
    spans: SpanSink | None = None,
    skills_of: Callable[[SessionKey], Mapping[str, Path]] = no_skills,
) -> AsyncIterator[ToolRegistry]:
    """Open a registry with the tools in `own`, those of `plugins` and all that the settings and this machine allow, as
    long as the block lasts. MCP servers join when they are up. Commands can read the folders of `skills_of` their
    owner. Raises `ConfigError`."""
    await databases.check()
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(WebSession())
        lent = await stack.enter_async_context(WebSession(exempt=lender.addresses)) if lender else None
        files = SharedThreads("files", FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX)
        stack.callback(files.close)
        reached, confinement, refused = await mcp_servers(settings, workspaces.root.parent)
        engine = _engine(settings.web)
        if engine is not None:
            stack.push_async_callback(engine.close)
        offered = [
            execution_tools(
                await find_sandbox(hidden=[workspaces.root.parent, Path.home()]),
                workspaces,
                has_vault=lender is not None,
                skills_of=skills_of,
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
        _add_plugins(registry, plugins)
        servers = McpTools(reached, scrubber, clock, confinement, workspaces, files)
        async with alongside(servers.serve(registry.offer_instead)):
            yield registry


async def _browser(setting: BrowserSettings, clock: Clock, stack: AsyncExitStack) -> Chromium | NoBrowser:
    path = find_browser(setting.mode)
    if isinstance(path, NoBrowser):
        return path
    return await stack.enter_async_context(
        open_chromium(path, PublicConnector(), clock, is_sandboxed=setting.mode != "unsandboxed")
    )


def _engine(web: WebSettings) -> SearchEngine | None:
    if web.lacks:
        raise ConfigError(
            f"tools.web.engine is {web.engine}, which needs {web.lacks}: set it, or leave the engine empty"
        )
    if web.engine == "ddgs":
        return Keyless(web.url) if find_spec("ddgs") else None  # a light installation does without
    key = web.key.get_secret_value() if web.key else ""
    return SearchApi(web.engine, key=key, address=web.url) if web.engine else None


def _policy_line(line: PolicySetting) -> PolicyLine:
    places = (Visibility(line.place),) if line.place else ()
    return PolicyLine(line.subject, Permission(line.word), tuple(map(GrantRole, line.roles)), places)


async def mcp_servers(
    settings: ToolSettings, data_dir: Path
) -> tuple[Sequence[McpServer], ServerConfinement | None, Sequence[AbsentTool]]:
    """Return the servers that can be started, their confinement, and the servers that need a confinement and have none:
    those are not started. Raises `ConfigError`."""
    servers = [_server(setting, data_dir) for setting in settings.every_mcp_server(process_environment())]
    held = [server for server in servers if server.command and server.access.is_confined]
    confinement = await find_confinement(hidden=[data_dir]) if held else None
    refusals = {server.name: why for server in held if (why := not_held(server.access, confinement))}
    for name, why in refusals.items():
        _log.warning("mcp.not_started", server=name, reason=why)
    absent = [AbsentTool(f"{MCP_PREFIX}{name}", f"mcp {name}", why, Risk.EXECUTE) for name, why in refusals.items()]
    return [server for server in servers if server.name not in refusals], confinement, absent


def login_file(data_dir: Path, server: str) -> Path:
    """Return where the login at an MCP server is kept."""
    return data_dir / MCP_LOGINS / f"{server}.json"


def _server(setting: McpSetting, data_dir: Path) -> McpServer:
    if not setting.command:
        login = login_file(data_dir, setting.name)
        return McpServer(setting.name, url=setting.url, headers=setting.given, login=login)
    access = ServerAccess(setting.is_confined, setting.has_network, setting.readable, setting.writable)
    home = (data_dir / MCP_HOMES / setting.name).absolute()
    return McpServer(setting.name, setting.command, environment=setting.given, access=access, home=home)
