"""Everything that sub-agents need, put together as the settings say: the composition of this room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.models import Models
from agent.people import People
from agent.plans.planner import PLAN
from agent.running.slots import Slots
from agent.subagents.cage.probing import find_confinement
from agent.subagents.cage.supervisor import Supervisor
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.hosting.host import Hosting, Means
from agent.subagents.life.dispatcher import SubAgents, Watch
from agent.subagents.life.lives import Lives
from agent.subagents.life.orders import Dispatcher, Refused, SubOrder
from agent.subagents.life.recruiting import Recruiting
from agent.subagents.life.rights import Revoking, Rights
from agent.subagents.life.thinking import Thinking
from agent.subagents.tools.delegating import CATEGORY, Delegating
from agent.subagents.tools.following_catalog import FollowingCatalog
from agent.subagents.tools.orchestrating import orchestrate_tool
from agent.subagents.tools.waiting import Waiting
from agent.tools.files.workspace import Workspaces
from agent.tools.permissions import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.config.subagents import Subagents
from gateway.contracts.reasons import NoSubAgent
from gateway.contracts.subagents import SubTask
from gateway.contracts.toolsets import DELEGATING
from gateway.store import Store
from gateway.words.reasons import WORDINGS


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
    means: Means,
    *,
    workspaces: Workspaces,
    models: Models,
    people: People,
    store: Store,
    watch: Watch,
    ring: Callable[[], None],
) -> AsyncIterator[Delegation]:
    """As long as the block lasts; then all that still live are ended. `means` are the parent's, which a child has not;
    `workspaces` are those of the file tools, of which a child sees one conversation's; `ring` is called when one
    ends that nobody waits for. Raises `ConfigError`."""
    if not settings.enabled:
        yield _nobody()
        return
    cage = await find_confinement(settings.confinement, hidden=[workspaces.root.parent, Path.home()])
    tools, scrubber, clock, book = means.tools, means.scrubber, means.clock, store.tasks
    catalog = Catalog(store.sub_types, clock, rows=settings.rows(scrubber.scrub), known_tools=lambda: tools.names)
    rights = Rights(people).hold
    lives, limit_s = Lives(worker_id, book, clock), float(settings.limit_s)
    thinking = Thinking(models, store, lives, settings.model)
    agents = SubAgents(
        lives,
        Recruiting(catalog, lives, thinking, book, scrubber, clock, rights=rights, limit_s=limit_s),
        Hosting(means, Supervisor(cage, scrubber, clock), workspaces),
        defaultdict(lambda: Slots(settings.live_max)),
        book,
        scrubber,
        clock,
        watch=watch,
        ring=ring,
    )
    delegating = Delegating(agents, book, scrubber, clock, limit_s=limit_s)

    def asking(types: Mapping[str, SubType]) -> tuple[Tool, ...]:
        return (
            *delegating.tools(types),
            Waiting(book, clock).tool(),
            orchestrate_tool(agents, tuple(types), scrubber, clock),
        )

    async with aclosing(agents):
        following = FollowingCatalog(catalog, tools, asking)
        beside = (lives.keep, Revoking(lives, rights).run, following.keep)
        yield Delegation(agents, await following.tools(), beside, (agents.finish,))


def _nobody() -> Delegation:
    """Where sub-agents are off, all that needs one is off, too, and says so."""
    names, why = (*DELEGATING, PLAN.name), WORDINGS[NoSubAgent.SWITCHED_OFF].happened
    return Delegation(Nobody(), absent=tuple(AbsentTool(name, CATEGORY, why, Risk.READ) for name in names))


class Nobody:
    """`agent.subagents.life.orders.Dispatcher` where there are no sub-agents."""

    async def run(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise Refused(NoSubAgent.SWITCHED_OFF)

    async def spawn(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise Refused(NoSubAgent.SWITCHED_OFF)
