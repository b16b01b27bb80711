"""The composition of this folder: everything that sub-agents need, put together as the settings say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from agent.concurrency import Slots
from agent.features.access import People
from agent.features.plans import PLAN, NoPlan
from agent.limits import PLAN_TIMEOUT_S
from agent.models.selection import Models
from agent.prompts.library import PROMPTS
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.dispatcher import SubagentFactory, SubAgents, TaskWatch
from agent.subagents.orchestration import orchestrate_tool
from agent.subagents.parent import ChildRunner, ParentServices
from agent.subagents.runs import Dispatcher, OrderRefused, Rights, RunRegistry, SubOrder
from agent.subagents.sandbox import find_confinement
from agent.subagents.supervisor import Supervisor
from agent.subagents.tools import CATEGORY, CatalogFollower, DelegationTools, WaitTool
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import NoSubAgent
from gateway.contracts.messages import CleanText
from gateway.contracts.profiles import DELEGATING
from gateway.contracts.sessions import UsagePurpose
from gateway.contracts.subagents import SubTask, TaskState
from gateway.i18n.reasons import WORDINGS, in_words
from gateway.store import Store

_PLAN_TYPE: Final = "plan"


class PlanSubAgents:
    """Has each plan written by a sub-agent, whose calls are charged as planning."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def written(self, context: ToolContext, task: CleanText) -> CleanText:
        """Return what a planner answered. Raises `NoPlan` when it gave no answer, and `StoreUnavailable`."""
        order = SubOrder(_PLAN_TYPE, task, limit_s=PLAN_TIMEOUT_S, purpose=UsagePurpose.PLAN, form=PROMPTS.plan)
        try:
            ended = await self._dispatcher.delegate(context, order)
        except OrderRefused as refused:
            raise NoPlan(refused.said) from refused
        if ended.state is TaskState.COMPLETED:
            return ended.result
        raise NoPlan(
            lambda words: words.say("the planner did not finish ({reason})", reason=in_words(ended.reason, words))
        )


@dataclass(frozen=True, slots=True)
class Delegation:
    """The sub-agents of an agent process: their dispatcher, the tools that ask for them, what runs alongside
    the worker and what lasts longer than a turn; or the tools that are off because there are none."""

    dispatcher: Dispatcher
    tools: tuple[Tool, ...] = ()
    beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
    lasting: tuple[Callable[[float], Coroutine[Any, Any, None]], ...] = ()
    absent: tuple[AbsentTool, ...] = ()

    @property
    def is_off(self) -> bool:
        """Tell whether no sub-agent can be started."""
        return bool(self.absent)


@asynccontextmanager
async def open_subagents(
    worker_id: str,
    settings: SubagentSettings,
    services: ParentServices,
    *,
    workspaces: Workspaces,
    models: Models,
    people: People,
    store: Store,
    watch: TaskWatch,
    ring: Callable[[], None],
) -> AsyncIterator[Delegation]:
    """Yield it for as long as the block lasts; then all that still live are ended. `services` are the parent's, which
    a child has not; `workspaces` are those of the file tools, of which a child sees one conversation's; `ring` is
    called when one ends that nobody waits for. Raises `ConfigError`."""
    if not settings.enabled:
        yield _nobody()
        return
    sandbox = await find_confinement(settings.confinement, hidden=[workspaces.root.parent, Path.home()])
    tools, scrubber, clock, book = services.tools, services.scrubber, services.clock, store.tasks
    catalog = Catalog(store.sub_types, clock, rows=settings.rows(scrubber.scrub), known_tools=lambda: tools.names)
    rights = Rights(people)
    registry, limit_s = RunRegistry(worker_id, book, clock), float(settings.limit_s)
    factory = SubagentFactory(catalog, registry, models, store, scrubber, clock, rights=rights.hold, limit_s=limit_s)
    agents = SubAgents(
        registry,
        factory,
        ChildRunner(services, Supervisor(sandbox, scrubber, clock).supervise, workspaces).carry_out,
        defaultdict(lambda: Slots(settings.live_max)),
        book,
        scrubber,
        clock,
        watch=watch,
        ring=ring,
    )
    delegating = DelegationTools(agents, book, scrubber, clock, limit_s=limit_s, models=models.choosable)

    def asking(types: Mapping[str, SubType]) -> tuple[Tool, ...]:
        return (
            *delegating.tools(types),
            WaitTool(book, clock).tool(),
            orchestrate_tool(agents, tuple(types), scrubber, clock),
        )

    async with aclosing(agents):
        following = CatalogFollower(catalog, tools, asking)
        beside = (registry.keep, partial(rights.enforce, registry), following.keep)
        yield Delegation(agents, await following.tools(), beside, (agents.finish,))


def _nobody() -> Delegation:
    """Build the delegation for an installation without sub-agents: every tool that needs one is off and says so."""
    names, why = (*DELEGATING, PLAN.name), WORDINGS[NoSubAgent.SWITCHED_OFF].happened
    return Delegation(NoSubagents(), absent=tuple(AbsentTool(name, CATEGORY, why, Risk.READ) for name in names))


class NoSubagents:
    """`agent.subagents.runs.Dispatcher` where there are no sub-agents."""

    async def delegate(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise OrderRefused(NoSubAgent.SWITCHED_OFF)

    async def spawn(self, _context: ToolContext, _order: SubOrder) -> SubTask:
        """Refuse."""
        raise OrderRefused(NoSubAgent.SWITCHED_OFF)
