"""MCP servers and their tools, by the official SDK, with our limits, our envelope and our policy.

The SDK's connection belongs to the task that opened it, so each server has a task of its own (`hold`), and the
tools only borrow the connection."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from jsonschema import Draft202012Validator, SchemaError

from agent import limits
from agent.media import picture_in
from agent.models.requests import ToolSpec
from agent.tools.files.tools import put
from agent.tools.files.workspace import Workspaces
from agent.tools.mcp_confinement import NOT_TOLD, Launch, ServerAccess, ServerConfinement
from agent.tools.policy import Risk
from agent.tools.tool import Enclosed, Tool, ToolContext
from gateway.contracts.context_blocks import image
from gateway.contracts.errors import FailureCause, ToolError
from gateway.contracts.messages import clipped, each_text, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.profiles import MCP_PREFIX
from gateway.scrub import Scrubber
from gateway.tasks import SharedThreads, alongside

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as RemoteTool


_log = structlog.get_logger(__name__)
_PAGES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class McpServer:
    """The way to reach a server: `command` starts one that speaks on its standard streams, `url` is one that speaks
    streamable HTTP. `environment` is all the started one gets, besides a path, a home and a locale; `access` is what it
    reaches, and `home` the folder that is its own. `login` is the file of a login at an address, if there is one."""

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = limits.MCP_CALL_S
    access: ServerAccess = NOT_TOLD
    home: Path = Path("/")
    login: Path | None = None


class McpLink:
    """The connection to one server."""

    def __init__(self, server: McpServer, clock: Clock, confinement: ServerConfinement | None) -> None:
        self.server = server
        self._confinement = confinement
        self._clock = clock
        self._wanted = asyncio.Event()
        self._lost = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.changed = asyncio.Event()
        """Set when the server may offer other tools than it did."""
        self._has_connected = False
        self._refused = asyncio.Event()
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
                self._refused.clear()
                async with _open(self.server, self._confinement, self.changed, self._refused) as client:
                    self._failures = 0
                    opening.set_result(client)
                    _log.info("mcp.connected", server=self.server.name)
                    if self._has_connected:  # it was started again, and may be another one
                        self.changed.set()
                    self._has_connected = True
                    async with alongside(_listen(client, self.changed)):
                        await self._lost.wait()
            except Exception as error:  # noqa: BLE001 - a supervisor's child: counted, logged, started again later
                self._ended(error, was_connected=opening.done())
            finally:
                if not opening.done():
                    opening.set_exception(ToolError(self._why_not()))
                    opening.exception()  # the waiting calls get it; there may be none
                self._client = None
                self._wanted.clear()
                self._idle.set()

    async def tools(self) -> list[RemoteTool]:
        """List the tools that the server offers, and start it if need be. Raises `ToolError`."""
        client = await self._connection()
        found: list[RemoteTool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(limits.MCP_START_S):
                for _ in range(_PAGES_MAX):
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if not cursor or len(found) >= limits.MCP_TOOLS_MAX:
                        break
        except TimeoutError as error:
            self._lost.set()
            raise ToolError(f"the MCP server {self.server.name} did not list its tools in time") from error
        except Exception as error:
            self._lost.set()
            raise ToolError(f"the MCP server {self.server.name} could not list its tools") from error
        return found[: limits.MCP_TOOLS_MAX]

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
            raise ToolError(_too_slow(tool, self.server), FailureCause.BUSY) from error
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise ToolError(_too_slow(tool, self.server), FailureCause.BUSY) from error
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
        """Return the live connection, or open a new one. Raises `ToolError` while a failed server has its pause."""
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
            async with asyncio.timeout(limits.MCP_START_S):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            raise ToolError(f"the MCP server {self.server.name} did not start in time") from error

    def _why_not(self) -> str:
        name = self.server.name
        if self._refused.is_set():
            return f"the MCP server {name} asks for a login: the operator makes one with `trivet mcp login {name}`"
        return f"the MCP server {name} cannot be reached"

    def _ended(self, error: Exception, *, was_connected: bool) -> None:
        """Handle the end of a connection: a server that never came up has to wait, one that died is started again at
        once."""
        first_s, most_s = limits.MCP_BACKOFF_S
        pause_s = 0.0 if was_connected else min(first_s * 2**self._failures, most_s)
        self._failures += not was_connected
        self._not_before_s = self._clock.monotonic_s() + pause_s
        _log.warning("mcp.ended", server=self.server.name, reason=type(error).__name__, pause_s=pause_s)


async def _listen(client: Client, changed: asyncio.Event) -> None:
    """Hear of other tools from a server that tells so to those only who ask: since the protocol of 2026-07-28."""
    from mcp import MCPError  # noqa: PLC0415 - loaded with the first connection
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost  # noqa: PLC0415 - likewise

    offered = client.server_capabilities.tools
    while offered is not None and offered.list_changed:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    changed.set()
        except (ListenNotSupportedError, MCPError):
            return
        except (SubscriptionLost, TimeoutError):
            changed.set()  # it may have told of some meanwhile
        await asyncio.sleep(limits.MCP_BACKOFF_S[1])


@asynccontextmanager
async def _open(
    server: McpServer, confinement: ServerConfinement | None, changed: asyncio.Event, refused: asyncio.Event
) -> AsyncIterator[Client]:
    """Open a connection for the length of the block, in which `changed` is set when the server says that it has other
    tools, and `refused` when it wants to know who we are. The SDK is imported here, because it takes a second and 50 MB
    that only its users shall pay for."""
    import httpx2  # noqa: PLC0415
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    from mcp.types import ToolListChangedNotification  # noqa: PLC0415

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async def look(response: httpx2.Response) -> None:
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            refused.set()

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
            timeout = httpx2.Timeout(limits.MCP_START_S, read=server.timeout_s + limits.MCP_START_S)
            login = None
            if server.login is not None and await asyncio.to_thread(server.login.is_file):
                from agent.tools.mcp_login import KeptLogin, LoginFile  # noqa: PLC0415

                login = KeptLogin(server.url, LoginFile(server.login))
            http = httpx2.AsyncClient(
                headers=dict(server.headers), timeout=timeout, auth=login, event_hooks={"response": [look]}
            )
            await stack.enter_async_context(http)
            transport = streamable_http_client(server.url, http_client=http)
        async with asyncio.timeout(limits.MCP_START_S):
            client = await stack.enter_async_context(Client(transport, message_handler=hear))
        yield client


def _launch(server: McpServer, confinement: ServerConfinement | None) -> Launch:
    """Prepare the launch of a server. Raises `OSError`, also where a server has to be confined and no confinement
    works. Blocks."""
    if not server.access.is_confined:
        program, *arguments = server.command
        return Launch(program, tuple(arguments), server.environment)
    if confinement is None:
        raise PermissionError("nothing holds it here")
    server.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return confinement.launch(server.command, server.environment, server.access, server.home)


def _too_slow(tool: str, server: McpServer) -> str:
    return f"{tool} did not finish within {server.timeout_s:g} s"


# The tools of MCP servers as ours: `mcp_<server>_<tool>`, with our limits, our envelope and our policy.


_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_ON_TOP: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "enum"})
"""Providers refuse a whole request for one of these at the top of a tool's schema; the server checks anyway."""

_ENDLESS: Final = frozenset(
    {"pattern", "patternProperties", "uniqueItems", "unevaluatedItems", "unevaluatedProperties"}
)
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Keywords below which names are fields, not keywords."""

_DIGEST_CHARS: Final = 8
_SLACK_S: Final = 5.0  # the link keeps time itself and says which server it was


OfferTools = Callable[[Sequence[Tool], str], None]
"""Takes the tools of a server, in place of those of a category that it had."""


def _category(server: McpServer) -> str:
    return f"mcp {server.name}"


class McpTools:
    """All configured servers. `run` keeps them and offers their tools as they become known."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        scrubber: Scrubber,
        clock: Clock,
        confinement: ServerConfinement | None,
        workspaces: Workspaces,
        threads: SharedThreads,
    ) -> None:
        """Prepare the servers. `confinement` applies to those that are programs, except those that the
        settings exempt. Images go into the workspaces, by the threads for files."""
        self._links = tuple(McpLink(server, clock, confinement) for server in servers)
        self._scrubber = scrubber
        self._workspaces = workspaces
        self._threads = threads

    async def serve(self, offer: OfferTools) -> None:
        """Ask every server for its tools and `offer` them, again when they change; keep the servers for the calls.
        Runs until it is cancelled, and stops the servers then."""
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(link.hold())
                group.create_task(self._discover(link, offer))

    async def _discover(self, link: McpLink, offer: OfferTools) -> None:
        """Ask the server for its tools until that succeeds, since it may come up later than we do, and whenever it says
        that there are others."""
        while True:
            link.changed.clear()
            try:
                found = await link.tools()
            except ToolError as error:
                _log.warning("mcp.undiscovered", server=link.server.name, reason=str(error))
                await asyncio.sleep(limits.MCP_BACKOFF_S[1])
                continue
            try:
                tools = tuple(filter(None, (self._tool(link, remote) for remote in found)))
                offer(tools, _category(link.server))
            except ValueError as error:  # two of one name
                _log.warning("mcp.refused", server=link.server.name, reason=str(error))
            await asyncio.gather(link.changed.wait(), asyncio.sleep(limits.MCP_LISTED_EVERY_S))

    def _tool(self, link: McpLink, remote: RemoteTool) -> Tool | None:
        """Convert a remote tool into one of ours; None for a schema that cannot be given to a model."""
        schema = self._clean_schema(remote.input_schema)
        name = tool_name(link.server.name, remote.name)
        if not _is_usable(schema) or self._scrubber.scrub(name) != name:
            _log.warning("mcp.tool_refused", server=link.server.name, tool=remote.name[:64])
            return None
        description = clipped(self._scrubber.scrub(remote.description or remote.name), limits.MCP_DESCRIPTION_CHARS_MAX)

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            result = await link.call(remote.name, arguments)
            if result.is_error:
                raise ToolError(as_text(result) or f"{remote.name} failed without a word")
            images = [block.data for block in result.content if block.type == "image"]
            told = [await self._show(context, link.server.name, data) for data in images[: limits.MCP_IMAGES_MAX]]
            return "\n".join(filter(None, (as_text(result), *told))) or "(no output)"

        return Tool(
            ToolSpec(name, description, schema),
            _category(link.server),
            Risk.EXECUTE,  # its effect is the server's word, and is not checked
            run,
            timeout_s=link.server.timeout_s + limits.MCP_START_S + _SLACK_S,
            foreign=True,
            fits=_without_patterns(schema),
        )

    async def _show(self, context: ToolContext, server: str, data: str) -> str:
        """Keep an image in the workspace, add it to the answer's files and have the model shown it; say so."""
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            content = b""
        picture = picture_in(content)
        if picture is None or len(content) > limits.IMAGE_BYTES_MAX:
            return "(an image of an unknown kind, or of too many bytes: not shown)"
        digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
        name = self._scrubber.scrub(f"{server}-{digest}.{picture.media_type.removeprefix('image/')}")
        path, media_type = joined(literal_text("mcp/"), name), self._scrubber.scrub(picture.media_type)
        workspace = self._workspaces.of(context.key)
        try:
            await self._threads.call(context.owner, partial(put, workspace, f"mcp {server}", path, content))
            if context.enclosures is None:
                return f"(an image: {path} in the workspace)"
            sent = Enclosed(name, media_type, content, literal_text(""))
            context.enclosures.add(sent, shown=image(path, media_type, len(content)))
        except ToolError as error:
            return f"(an image, not shown: {error})"
        return f"(an image: {path} in the workspace; the user gets it with your answer)"

    def _clean_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Scrub a schema with its defaults, examples and descriptions, because the model reads them all. Return an
        empty one, which is not usable, if nothing readable is left."""
        written = json.dumps({name: part for name, part in schema.items() if name not in _NOT_ON_TOP})
        if len(written) > limits.MCP_SCHEMA_CHARS_MAX:
            return {}
        try:
            texts = each_text(json.loads(written), self._scrubber.scrub)
            cleaned: Any = json.loads(self._scrubber.scrub(json.dumps(texts, ensure_ascii=False)))
        except ValueError:
            return {}
        return cleaned if isinstance(cleaned, dict) else {}


def tool_name(server: str, tool: str) -> str:
    """Form the name `mcp_<server>_<tool>` in the letters and the length that providers take; different tools still get
    different names."""
    name = f"{MCP_PREFIX}{server}_{tool}"
    fit = _UNFIT.sub("_", name)
    if fit == name and len(fit) <= limits.MCP_TOOL_NAME_CHARS_MAX:
        return fit
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{fit[: limits.MCP_TOOL_NAME_CHARS_MAX - _DIGEST_CHARS - 1]}_{digest}"


def _without_patterns(schema: Any) -> Any:
    """Leave out of a stranger's schema what compares texts with its regular expressions, or all values with each other:
    on the event loop, such a check might never end. The server makes it itself."""
    match schema:
        case dict():
            dropped = _ENDLESS | ({"additionalProperties"} if "patternProperties" in schema else frozenset())
            return {
                name: {field: _without_patterns(of_field) for field, of_field in part.items()}
                if name in _NAMED and isinstance(part, dict)
                else _without_patterns(part)
                for name, part in schema.items()
                if name not in dropped
            }
        case list():
            return [_without_patterns(part) for part in schema]
    return schema


def _is_usable(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") != "object":
        return False
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True


def as_text(result: CallToolResult) -> str:
    """Convert a result to text: its texts, a note on everything else but images, and its structure if it has nothing
    else."""
    parts = [_block(block.model_dump(mode="json", by_alias=True)) for block in result.content if block.type != "image"]
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False, indent=1)
    return "\n".join(parts)


def _block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            return f"(a link to {uri})"
        case {"type": str(kind), "mimeType": str(media_type)}:
            return f"({kind}, {media_type}: not shown)"
        case _:
            return "(something that is no text: not shown)"
