"""The tools and commands of plug-ins: to policy, approvals, limits and scrubber they are like ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import structlog

from agent.features.commands import CommandRequest, CommandRow
from agent.limits import TOOL_TIMEOUT_S
from agent.models.requests import ToolSpec
from agent.tools.policy import Risk, Visibility
from agent.tools.tool import Tool, ToolContext
from gateway.limits import PLUGIN_COMMAND_S
from gateway.packages import PluginKind
from gateway.plugins import Caller, FunctionCommand, FunctionTool, call, load_parts

_log = structlog.get_logger(__name__)


def plugin_tools(packages: Iterable[str]) -> Iterator[Tool]:
    """Load the tools of these packages."""

    def made(name: str, found: FunctionTool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            return await found.run(_caller(context), arguments)

        spec = ToolSpec(name, found.description, found.schema)
        timeout_s = TOOL_TIMEOUT_S if found.timeout_s is None else found.timeout_s
        return Tool(spec, found.category, Risk(found.risk), run, timeout_s=timeout_s, foreign=found.is_foreign)

    for part, found in load_parts(packages, PluginKind.TOOLS):
        yield found if isinstance(found, Tool) else made(part.name, found)


def plugin_commands(packages: Iterable[str]) -> tuple[CommandRow, ...]:
    """Load the commands of these packages. One that fails, or takes too long, is told of in a sentence."""

    def row(name: str, found: FunctionCommand) -> CommandRow:
        async def run(asked: CommandRequest) -> str:
            try:
                async with asyncio.timeout(PLUGIN_COMMAND_S):
                    return str(await call(found.function, asked.argument, _caller(asked.tool_context())))
            except Exception as error:  # noqa: BLE001 - named boundary, a plug-in: its command is answered, once
                _log.exception("command.failed", command=name, reason=type(error).__name__)
                return asked.words.say("/{name} did not work. The operator's log says why.", name=name)

        return CommandRow(name, run, spec=found.spec(name))

    return tuple(row(part.name, found) for part, found in load_parts(packages, PluginKind.COMMANDS))


def _caller(context: ToolContext) -> Caller:
    """Return what the functions of plug-ins are told of the person for whom they run."""
    is_private = context.place is Visibility.DM
    return Caller(context.asked_by or context.owner, context.key, context.role, is_private, context.language)
