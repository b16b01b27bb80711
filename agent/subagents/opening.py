"""Everything that sub-agents need, put together as the settings say: the composition of this room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.model.client import ModelClient
from agent.models import Models
from agent.plans.planner import PLAN
from agent.subagents.cage.probing import find_confinement
from agent.subagents.catalog import Catalog
from agent.subagents.dispatcher import SubAgents, Watch
from agent.subagents.dispatching import Dispatcher, SubOrder
from agent.subagents.hosting import Hosting, Means
from agent.subagents.lives import Lives
from agent.subagents.orchestrating import orchestrate_tool
from agent.subagents.recruiting import Recruiting
from agent.subagents.slots import Slots
from agent.subagents.supervisor import Supervisor
from agent.subagents.tools import CATEGORY, subagent_tools
from agent.subagents.waiting import Waiting
from agent.tools.files.workspace import Workspaces
from agent.tools.permissions import Risk
from agent.tools.registry import ToolRegistry
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.config.subagents import Subagents
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock, Scrubber, Store
from gateway.contracts.subagents import SubTask
from gateway.contracts.toolsets import DELEGATING
from gateway.words import sentence

_OFF: Final = sentence("sub-agents are switched off")


@dataclass(frozen=True, slots=True)
class Delegation:
    """What an agent process has of sub-agents: who dispatches them, the tools that ask for them, what runs beside the
    worker and what lasts longer than a turn; or the tools that are off because there are none."""

    dispatcher: Dispatcher
    tools: tuple[Tool, ...] = ()
    beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
    lasting: tuple[Callable[[float], Coroutine[Any, Any, None]], ...] = ()
    absent: tuple[AbsentTool, ...] = ()

    @property
    def is_off(self) -> bool:
        """True where no sub-agent can be had."""
        return bool(self.absent)


@asynccontextmanager
async def open_subagents(
    worker_id: str,
    settings: Subagents,
    *,
    tools: ToolRegistry,
    workspaces: Path,
    client: ModelClient,
    models: Models,
    store: Store,
    scrubber: Scrubber,
    clock: Clock,
    watch: Watch,
    ring: Callable[[], None],
) -> AsyncIterator[Delegation]:
    """As long as the block lasts; then all that still live are ended. `workspaces` is the folder of the file tools,
    of which a child sees one conversation's; `ring` is called when one ends that nobody waits for. Raises
    `ConfigError`."""
    if not settings.enabled:
        yield _nobody()
        return
    cage = await find_confinement(settings.confinement, hidden=[workspaces.parent, Path.home()])
    catalog = Catalog(store.sub_types, clock, rows=settings.rows(scrubber.scrub), known_tools=lambda: tools.names)
    lives, limit_s = Lives(worker_id, store.tasks, clock), float(settings.limit_s)
    agents = SubAgents(
        lives,
        Recruiting(catalog, lives, models, store, scrubber, clock, model=settings.model, limit_s=limit_s),
        Hosting(Means(client, tools, scrubber, clock), Supervisor(cage, scrubber, clock), Workspaces(workspaces)),
        Slots(settings.live_max),
        store.tasks,
        scrubber,
        clock,
        watch=watch,
        ring=ring,
    )
    async with aclosing(agents):
        types = await catalog.current()
        offered = (
            *subagent_tools(agents, store.tasks, types, scrubber, clock, limit_s=limit_s),
            Waiting(store.tasks, clock).tool(),
            orchestrate_tool(agents, tuple(types), scrubber, clock),
        )
        yield Delegation(agents, offered, (lives.keep,), (agents.finish,))


def _nobody() -> Delegation:
    """Where sub-agents are off, all that needs one is off, too, and says so."""
    names = (*DELEGATING, PLAN.name)
    return Delegation(Nobody(_OFF), absent=tuple(AbsentTool(name, CATEGORY, _OFF, Risk.READ) for name in names))


class Nobody:
    """`agent.subagents.dispatching.Dispatcher` where there are no sub-agents."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def run(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise ToolError(self._reason)

    async def spawn(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise ToolError(self._reason)
