"""What would hold somebody else's program here? It is tried, and its name is said.

    python -m agent.confinement        the process of a sub-agent; on a second line stands what it does not hold
    python -m agent.confinement mcp    the programs of MCP servers; a line for each that would not be started

A confinement that was insisted on and cannot be had is a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from agent.subagents.sandbox import choose
from agent.tools.toolbox import mcp_servers
from agent.trial import answer_once
from gateway.config import Settings
from gateway.scrub import Scrubber


def main() -> NoReturn:
    """Try what is configured."""
    answer_once(_of_mcp_servers if "mcp" in sys.argv[1:] else _of_sub_agents)


async def _of_sub_agents(settings: Settings, _scrubber: Scrubber) -> str:
    choice = await choose(settings.subagents.confinement, hidden=[settings.data_dir, Path.home()])
    return f"{choice.sandbox.confinement}\n{choice.not_held}"


async def _of_mcp_servers(settings: Settings, _scrubber: Scrubber) -> str:
    _, confinement, refused = await mcp_servers(settings.tools.mcp_servers, settings.data_dir)
    held_by = confinement.name if confinement else "nothing"
    return "\n".join([held_by, *(f"{each.name}: {each.reason}" for each in refused)])


if __name__ == "__main__":
    main()
