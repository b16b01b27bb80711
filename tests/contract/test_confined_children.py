"""The real process of a sub-agent in each of its cages, with a parent that plays its model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.subagents.confinement import Confinement
from agent.subagents.protocol import (
    CalledTool,
    ModelCall,
    ModelDelta,
    ModelResult,
    OfferedTool,
    ToolCallFrame,
    ToolOutcome,
)
from agent.subagents.sandbox import ChildSandbox, find_confinement
from agent.subagents.supervisor import ChildOrder, Supervisor
from agent.tools.files.workspace import Workspace
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.contracts.subagents import TaskState
from gateway.scrub import Scrubber
from tests.parts.child_talk import HERE, a_call, an_init


@dataclass
class Model:
    """Makes these calls, one a round, and ends with the last result."""

    calls: Sequence[CalledTool]
    results: list[str] = field(default_factory=list)

    async def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        self.results = [said.text for said in call.messages if said.role == "tool"]
        if len(self.results) < len(self.calls):
            yield ModelResult(call.id, calls=(self.calls[len(self.results)],))
        else:
            yield ModelResult(call.id, self.results[-1])

    async def tool(self, call: ToolCallFrame) -> ToolOutcome:
        raise AssertionError(call)


@pytest.fixture(params=list(Confinement))
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> ChildSandbox:
    try:
        return await find_confinement(request.param, hidden=[tmp_path])
    except ConfigError as error:
        pytest.skip(str(error))


async def test_a_child_that_writes_and_one_that_only_reads_work_on_one_workspace(
    sandbox: ChildSandbox, tmp_path: Path
) -> None:
    """The home of the second is mounted so that nobody can write to it, where the cage can do that."""
    home = tmp_path / "home"
    Workspace(home)
    wrote = await _run(sandbox, home, HERE, a_call("file_write", path="a.txt", content="a"), a_call("file_undo"),
                       a_call("file_redo"))  # fmt: skip
    assert wrote[-1] == "Made again: file_write a.txt"
    reading = [
        tool for tool in HERE if tool.name in {"file_read", "file_list", "file_tree", "file_info", "file_search"}
    ]
    found = await _run(sandbox, home, reading, a_call("file_search", text="a"), a_call("file_read", path="a.txt"))
    assert found == ["a.txt:1: a", "     1  a"]


async def _run(sandbox: ChildSandbox, home: Path, tools: Sequence[OfferedTool], *calls: CalledTool) -> list[str]:
    supervisor, host = Supervisor(sandbox, Scrubber(), SystemClock()), Model(calls)
    writes = any(tool.name == "file_write" for tool in tools)
    order = ChildOrder(an_init(tools=tools, home=home), home, writes=writes, limit_s=60)
    ending = await supervisor.supervise(order, host)
    assert ending.state is TaskState.COMPLETED, ending
    assert ending.confinement == sandbox.confinement
    return host.results
