"""The file tools as a registry has them: each on the workspace of whoever asks, in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from agent.model.client import ToolSpec
from agent.running.slots import Threads
from agent.tools.files.file_tool import FileTool
from agent.tools.files.workspace import Homes
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext


def offered(tools: Iterable[FileTool], homes: Homes, threads: Threads) -> tuple[Tool, ...]:
    """Those that only read may quote the placeholder of a secret; the others would write it into a file. What they read
    may be of others: what people sent lies in a workspace, and what was fetched."""

    def one(tool: FileTool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            context.reading.is_foreign |= not tool.changes_files
            return await threads.run(context.owner, partial(tool.work, homes.of(context.key), arguments))

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
