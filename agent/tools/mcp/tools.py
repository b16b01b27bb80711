"""The tools of MCP servers as ours: `mcp_<server>_<tool>`, with our limits, our envelope and our policy."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog
from jsonschema import Draft202012Validator, SchemaError

from agent.limits import (
    MCP_BACKOFF_S,
    MCP_DESCRIPTION_CHARS_MAX,
    MCP_SCHEMA_CHARS_MAX,
    MCP_START_S,
    MCP_TOOL_NAME_CHARS_MAX,
)
from agent.model.client import ToolSpec
from agent.tools.mcp.confinement import Confinement
from agent.tools.mcp.server import McpLink, McpServer
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import clipped
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.toolsets import MCP_PREFIX
from gateway.scrub.structured import each_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as RemoteTool

_log = structlog.get_logger(__name__)
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


class McpTools:
    """All configured servers. `run` keeps them and offers their tools as they become known."""

    def __init__(
        self, servers: Sequence[McpServer], scrubber: Scrubber, clock: Clock, confinement: Confinement | None
    ) -> None:
        """`confinement` holds those that are programs, but those that the settings let go."""
        self._links = tuple(McpLink(server, clock, confinement) for server in servers)
        self._scrubber = scrubber

    async def run(self, offer: Callable[[Sequence[Tool]], None]) -> None:
        """Ask every server for its tools and `offer` them, once per server; then keep the servers for the calls.
        Runs until it is cancelled, and stops the servers then."""
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(link.hold())
                group.create_task(self._discover(link, offer))

    async def _discover(self, link: McpLink, offer: Callable[[Sequence[Tool]], None]) -> None:
        """Until it succeeds: a server may come up later than we do."""
        while True:
            try:
                found = await link.tools()
            except ToolError as error:
                _log.warning("mcp.undiscovered", server=link.server.name, reason=str(error))
                await asyncio.sleep(MCP_BACKOFF_S[1])
                continue
            try:
                offer(tuple(filter(None, (self._tool(link, remote) for remote in found))))
            except ValueError as error:  # two of one name
                _log.warning("mcp.refused", server=link.server.name, reason=str(error))
            return

    def _tool(self, link: McpLink, remote: RemoteTool) -> Tool | None:
        """One of theirs as one of ours; None for a schema that no model could be given."""
        schema = self._clean_schema(remote.input_schema)
        name = tool_name(link.server.name, remote.name)
        if not _is_usable(schema) or self._scrubber.scrub(name) != name:
            _log.warning("mcp.tool_refused", server=link.server.name, tool=remote.name[:64])
            return None
        description = clipped(self._scrubber.scrub(remote.description or remote.name), MCP_DESCRIPTION_CHARS_MAX)

        async def run(_context: ToolContext, arguments: Mapping[str, Any]) -> str:
            result = await link.call(remote.name, arguments)
            if result.is_error:
                raise ToolError(as_text(result) or f"{remote.name} failed without a word")
            return as_text(result) or "(no output)"

        return Tool(
            ToolSpec(name, description, schema),
            f"mcp {link.server.name}",
            Risk.EXECUTE,  # what it does is the server's word, and nobody's check
            run,
            timeout_s=link.server.timeout_s + MCP_START_S + _SLACK_S,
            foreign=True,
            fits=_without_patterns(schema),
        )

    def _clean_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A schema has defaults, examples and descriptions in it, and the model reads them all. Empty, which is not
        usable, if nothing readable is left."""
        written = json.dumps({name: part for name, part in schema.items() if name not in _NOT_ON_TOP})
        if len(written) > MCP_SCHEMA_CHARS_MAX:
            return {}
        try:
            texts = each_text(json.loads(written), self._scrubber.scrub)
            cleaned: Any = json.loads(self._scrubber.scrub(json.dumps(texts, ensure_ascii=False)))
        except ValueError:
            return {}
        return cleaned if isinstance(cleaned, dict) else {}


def tool_name(server: str, tool: str) -> str:
    """`mcp_<server>_<tool>`, in the letters and the length that providers take; still different for different
    tools."""
    name = f"{MCP_PREFIX}{server}_{tool}"
    fit = _UNFIT.sub("_", name)
    if fit == name and len(fit) <= MCP_TOOL_NAME_CHARS_MAX:
        return fit
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{fit[: MCP_TOOL_NAME_CHARS_MAX - _DIGEST_CHARS - 1]}_{digest}"


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
    """A result as text: its texts, a word on everything else, its structure if there is nothing else."""
    parts = [_block(block.model_dump(mode="json", by_alias=True)) for block in result.content]
    if not parts and result.structured_content is not None:
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
