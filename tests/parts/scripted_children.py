"""Sub-agents without processes: what a child does is a function here, everything around it is real."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from agent.models.demo import ScriptedClient
from agent.models.selection import Models
from agent.subagents.catalog import Catalog
from agent.subagents.dispatcher import SubagentFactory, SubAgents
from agent.subagents.runs import RunRegistry, SubagentRun
from agent.subagents.status import StatusLines
from agent.subagents.supervisor import ChildEnding
from agent.tools.tool import CallOrigin, ToolContext
from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.config.settings import AgentSettings
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import Reason
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import SubTask, TaskState
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import Slots
from gateway.telemetry.spans import NoSpans
from tests.contract.subtask_samples import conversation, turn_of, wake_of
from tests.parts.tooling import context

Act = Callable[[SubagentRun], Awaitable[str]]
"""What a child does; what it returns is its answer."""


def ending(
    response: str = "",
    state: TaskState = TaskState.COMPLETED,
    reason: Reason | None = None,
    *,
    confinement: str = "none",
) -> ChildEnding:
    """How a child ended."""
    return ChildEnding(state, reason, response, confinement, 5, 1)


class Board(StatusLines):
    """Whoever watches; and which ends were rung."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, TaskState]] = []
        self.rung = 0

    def started(self, task: SubTask, address: ReplyAddress | None, language: str, *, person: str = "") -> None:
        self.seen.append((task.id, task.state))

    def ended(self, task: SubTask) -> None:
        self.seen.append((task.id, task.state))

    def ring(self) -> None:
        self.rung += 1


@dataclass
class ScriptedChildren:
    """A dispatcher whose children are functions."""

    agents: SubAgents
    registry: RunRegistry
    board: Board
    context: ToolContext
    store: Store
    act: Act
    began: list[SubagentRun] = field(default_factory=list)

    async def carry_out(self, run: SubagentRun) -> ChildEnding:
        """Run the function instead of a process."""
        self.began.append(run)
        return ending(await self.act(run))

    async def newest(self) -> list[SubTask]:
        """The board, live ones first."""
        return list(await self.store.tasks.newest(limit=100))


async def echo(run: SubagentRun) -> str:
    """Answers at once."""
    return f"done: {run.task.prompt}"


async def never(_life: SubagentRun) -> str:
    """Answers never."""
    await asyncio.Event().wait()
    return ""


@asynccontextmanager
async def scripted_children(
    store: Store,
    act: Act = echo,
    *,
    live_max: int = 16,
    limit_s: float = 300.0,
    model: str = "",
    utility_model: str = "",
) -> AsyncIterator[ScriptedChildren]:
    """A dispatcher over a real store, and the context of a user's turn in which its tools are called."""
    scrubber, clock, board = Scrubber(), SystemClock(), Board()
    registry = RunRegistry(f"worker-{clock.code(4)}", store.tasks, clock)
    models = Models(ScriptedClient(), Settings(agent=AgentSettings(model="demo/scripted", utility_model=utility_model)))
    rows = SubagentSettings(model=model).rows(scrubber.scrub)
    catalog = Catalog(store.sub_types, clock, rows=rows, known_tools=_AnyName)
    factory = SubagentFactory(catalog, registry, models, store, scrubber, clock, rights=_always, limit_s=limit_s)
    agents = SubAgents(
        factory,
        lambda run: made.carry_out(run),
        defaultdict(lambda: Slots(live_max)),
        store.tasks,
        scrubber,
        clock,
        watch=board,
        spans=NoSpans(),
        ring=board.ring,
    )
    made = ScriptedChildren(agents, registry, board, in_turn(await conversation(store)), store, act)
    keeping = asyncio.create_task(registry.keep())
    try:
        async with aclosing(agents):
            yield made
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


def in_turn(session: Session) -> ToolContext:
    """The context of a user's turn in `session`."""
    wake = wake_of(session.key)
    known = context(str(session.key))
    return replace(
        known, turn_id=turn_of(session.key), address=wake.address, wake=wake, call_origin=CallOrigin(session.id)
    )


async def _always(_context: ToolContext) -> bool:
    return True


class _AnyName:
    def __contains__(self, _name: object) -> bool:
        return True
