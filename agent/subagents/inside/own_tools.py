"""The tools that a child runs itself: those for files, in its own workspace, checked as the registry checks them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from agent.limits import TOOLS_PARALLEL_MAX
from agent.subagents.frames import Call, OfferedTool, ToolOutcome
from agent.tools.calls import Fitting, run_in_time
from agent.tools.files.reading import reading_tools
from agent.tools.files.workspace import Workspace
from agent.tools.files.writing import writing_tools
from agent.tools.outputs import readable
from agent.tools.permissions import Risk
from agent.tools.placeholders import refuse_placeholders
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey

_ITSELF: Final = SessionKey("subagent", "itself")
_CONTEXT: Final = ToolContext(_ITSELF, _ITSELF, turn_id="")
"""The file tools ask their context for nothing but a key, and here everybody has the same home."""


class _Home:
    """The one workspace that a child knows."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def of(self, _key: SessionKey) -> Workspace:
        return self._workspace


class OwnTools:
    """Those of the `offered` tools that are to run here, and can. `home` is the folder with `files/` and `journal/`,
    None for no workspace."""

    def __init__(self, offered: Sequence[OfferedTool], home: Path | None) -> None:
        wanted = {tool.name for tool in offered if tool.runs_here}
        there = _file_tools(home) if home is not None and wanted else ()
        self._tools = {tool.spec.name: tool for tool in there if tool.spec.name in wanted}
        self._fitting = {name: Fitting(tool.spec.schema) for name, tool in self._tools.items()}
        self._slots = asyncio.Semaphore(TOOLS_PARALLEL_MAX)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def write(self) -> bool:
        """True if one of them changes files."""
        return any(tool.risk is Risk.WRITE for tool in self._tools.values())

    async def run(self, call: Call) -> ToolOutcome:
        """Run one of them; whatever happens is an outcome. What touches the same file runs in the order of the
        calls."""
        try:
            return ToolOutcome(call.id, readable(await self._attempt(call)), is_error=False)
        except ToolError as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001 - the tool boundary: the model gets an error result
            said = f"{call.name} failed: {type(error).__name__}"
        return ToolOutcome(call.id, readable(said), is_error=True)

    async def _attempt(self, call: Call) -> str:
        tool = self._tools[call.name]
        arguments = self._fitting[call.name].arguments(call.arguments)
        if not tool.quotes:
            refuse_placeholders(call.name, arguments, instead=tool.instead)
        async with AsyncExitStack() as held:
            for name in sorted(set(tool.locks(arguments))):
                await held.enter_async_context(self._locks[name])
            await held.enter_async_context(self._slots)
            return await run_in_time(tool, _CONTEXT, arguments)


def _file_tools(home: Path) -> tuple[Tool, ...]:
    homes = _Home(Workspace(home))
    return (*reading_tools(homes), *writing_tools(homes))
