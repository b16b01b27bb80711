"""Runs the step graph of a strategy: sub-agents in parallel, within one budget and one deadline. `orchestrate`.

The model is told the account at the end: the answer first, then the table of steps. The last part composes all that
sub-agents need, as the settings say."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from agent import limits
from agent.features.access import People
from agent.features.plans import PLAN, NoPlan
from agent.limits import PLAN_TIMEOUT_S
from agent.models.requests import ToolSpec
from agent.models.selection import Models
from agent.prompts.library import PROMPTS
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.dispatcher import SubagentFactory, SubAgents
from agent.subagents.parent import ChildRunner, ParentServices
from agent.subagents.runs import Delegate, OrderRefused, Rights, RunRegistry, SubOrder
from agent.subagents.sandbox import AUTO, find_confinement
from agent.subagents.status import StatusLines
from agent.subagents.steps import Conclusion, Ended, StepOrder, Strategy, heading, prompt_of, shares, shown, size
from agent.subagents.strategies import DESCRIPTION, schema, strategy_of
from agent.subagents.supervisor import ChildEnding, ChildOrder, Host, Supervisor
from agent.subagents.tools import CATEGORY, CatalogFollower, DelegationTools, WaitTool
from agent.tools.arguments import without_bounds
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.results import frame_chars, framed
from agent.tools.tool import AbsentTool, Allotment, Tool, ToolContext
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import NoSubAgent, Reason, Shortfall, ToolError, TrivetError
from gateway.contracts.messages import CleanText, clipped, each_text
from gateway.contracts.ports import Clock, SpanSink
from gateway.contracts.profiles import DELEGATING, SubTypeRows
from gateway.contracts.sessions import UsagePurpose
from gateway.contracts.subagents import SubTask, TaskState
from gateway.i18n import ENGLISH
from gateway.i18n.reasons import SHORTFALLS, WORDINGS, in_words, instead_of, what_now
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import Deadline, Slots

_log = structlog.get_logger(__name__)

_OUT_OF_TIME: Final = SHORTFALLS[Shortfall.TIME_UP].happened
_ASK_FOR_LESS: Final = instead_of(Reason.ALLOTMENT_SPENT)
_LEAST_S: Final = 0.1  # for one that begins in the last moment


_APART: Final = "\n\n"
_HEAD: Final = "| step | type | state | seconds | tokens | handle |\n|---|---|---|---|---|---|"
_STATE_CHARS: Final = 60  # of a state with its reason, in a row
_CELL_BREAKS: Final = str.maketrans({"|": "/", "\n": " ", "\r": " "})


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step in the table. `handle` is the id of its task, under which read_more has all of its answer; "" where
    there is none. `seconds` is None where nobody counted."""

    id: str
    sub_type: str
    state: str
    seconds: float | None = None
    tokens: int = 0
    handle: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """One orchestration that is over."""

    strategy: str
    outcome: Conclusion
    rows: tuple[StepRow, ...]
    seconds: float
    tokens: int
    tokens_max: int
    cost_usd: float

    def text(self, mark: str) -> str:
        """Write the account in at most SUBAGENT_RESULTS_CHARS_MAX characters: answers are cut, the table is not.
        Answers of sub-agents are framed with `mark`."""
        table = self._table()
        opening = self._opening()
        room = limits.SUBAGENT_RESULTS_CHARS_MAX - len(opening) - len(table) - 2 * len(_APART)
        return _APART.join(filter(None, (opening, self._answer(room, mark), table)))

    def _opening(self) -> str:
        problem = self.outcome.problem[: limits.ORCHESTRATION_REASON_CHARS_MAX]
        if not problem:
            return ""
        rest = "What was achieved until then is no finished answer:" if self.outcome.answer else "There is no result."
        return f"The orchestration ({self.strategy}) failed: {problem}.{what_now(self.outcome.instead)} {rest}"

    def _answer(self, room: int, mark: str) -> str:
        results = self.outcome.answer
        is_alone = len(results) == 1 and not self.outcome.problem
        headings = ["" if is_alone else f"{heading(result)}\n" for result in results]
        room -= sum(len(title) + frame_chars(len(mark)) + len(_APART) for title in headings)
        rooms = shares([size(result) for result in results], room)
        handles = {row.id: row.handle for row in self.rows}
        return _APART.join(
            f"{title}{framed(shown(result, share, handle=handles.get(result.id, '')), mark)}"
            for result, title, share in zip(results, headings, rooms, strict=True)
        )

    def _table(self) -> str:
        done = sum(row.state == "completed" for row in self.rows)
        summary = (
            f"{self.strategy}: {done} of {len(self.rows)} steps completed, {ENGLISH.lasting(self.seconds * 1000)}, "
            f"{self.tokens} of {self.tokens_max} tokens, ${self.cost_usd:.4f}"
        )
        return "\n".join((f"---\n{summary}\n", _HEAD, *map(_line, self.rows)))


def _line(row: StepRow) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
    state = row.state.translate(_CELL_BREAKS)[:_STATE_CHARS]
    return f"| {row.id} | {row.sub_type} | {state} | {seconds} | {row.tokens or ''} | {row.handle} |"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that all sub-agents of one orchestration may use together. `usd_max` None: no bound in dollars.
    `ending_s` before the end of `limit_s` nothing begins any more, and what runs is ended by its own limit."""

    tokens_max: int = limits.ORCHESTRATION_TOKENS
    usd_max: float | None = None
    limit_s: float = limits.ORCHESTRATION_LIMIT_S
    ending_s: float = limits.ORCHESTRATION_ENDING_S


class Orchestration:
    """One strategy being carried out.

    When the budget is spent no model is asked any more: nothing new begins, and what runs ends with what it had said,
    unless the call that it has open brings its answer. Shortly before the deadline what runs ends by its own limit, so
    that what it had said is kept; at the deadline it is killed."""

    def __init__(
        self,
        strategy: Strategy,
        bounds: Bounds,
        context: ToolContext,
        delegate: Delegate,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._strategy = strategy
        self._bounds = bounds
        self._allotment = Allotment(bounds.tokens_max, bounds.usd_max, above=context.allotment)
        self._context = replace(context, allotment=self._allotment)
        self._delegate = delegate
        self._scrubber = scrubber.for_chat(str(context.key))
        self._clock = clock
        self._deadline = Deadline(bounds.limit_s)
        self._begun: dict[str, StepOrder] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._ended: dict[str, Ended] = {}
        self._tasks: dict[str, SubTask] = {}

    async def play(self) -> Account:
        """Carry it out. Cancelling kills every sub-agent of it."""
        began_s = self._clock.monotonic_s()
        try:
            async with self._deadline, asyncio.TaskGroup() as group:
                outcome = await self._play(group)
        except TimeoutError:
            if not self._deadline.has_passed:
                raise
            move = self._strategy.move(self._ended)  # what ended at that very moment counts
            outcome = move if isinstance(move, Conclusion) else self._cut_short(_OUT_OF_TIME)
        outcome = self._explained(outcome)
        seconds = self._clock.monotonic_s() - began_s
        account = Account(
            self._strategy.name,
            outcome,
            self._rows(),
            seconds,
            self._allotment.tokens,
            self._bounds.tokens_max,
            self._allotment.cost_usd,
        )
        _log.info(
            "orchestration.ended",
            strategy=self._strategy.name,
            ok=not outcome.problem,
            children=len(self._begun),
            tokens=self._allotment.tokens,
            duration_ms=int(seconds * 1000),
        )
        return account

    async def _play(self, group: asyncio.TaskGroup) -> Conclusion:
        while not isinstance(move := self._strategy.move(self._ended), Conclusion):
            why_not = self._allotment.problem or (
                _OUT_OF_TIME if self._deadline.left_s <= self._bounds.ending_s else ""
            )
            if not why_not:
                self._begin(group, move.orders)
            if not self._running:
                return self._cut_short(why_not)
            over, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            self._running -= over
            for task in over:
                task.result()  # one whose turn has ended ends this, too
        return move

    def _begin(self, group: asyncio.TaskGroup, orders: Sequence[StepOrder]) -> None:
        """Start what has not been started, as far as there is room: what would only queue costs nothing yet."""
        fresh = [step for step in orders if step.id not in self._begun]
        for step in fresh[: limits.SUBAGENTS_LIVE_MAX - len(self._running)]:
            self._begun[step.id] = step
            self._running.add(group.create_task(self._carry_out(step)))

    async def _carry_out(self, step: StepOrder) -> None:
        prompt = self._scrubber.scrub(prompt_of(step, self._clock.code(limits.FRAME_CHARS)))
        order = SubOrder(
            step.sub_type,
            clipped(prompt, limits.SUBAGENT_PROMPT_CHARS_MAX),
            clipped(self._scrubber.scrub(f"{self._strategy.name} {step.label}"), limits.SUBAGENT_LABEL_CHARS_MAX),
            max(self._deadline.left_s - self._bounds.ending_s, _LEAST_S),
            form=step.form,
        )
        try:
            task = await self._delegate(self._context, order)
        except ToolError as error:
            self._ended[step.id] = Ended("", f"not started: {error}")
        except TrivetError as error:
            self._ended[step.id] = Ended("", f"not started: {type(error).__name__}")
        else:
            self._tasks[step.id] = task
            self._ended[step.id] = _ended(task)

    def _explained(self, outcome: Conclusion) -> Conclusion:
        """Add the spent budget to the reason: a strategy knows that steps failed, but not that the budget
        ended them."""
        spent = self._allotment.problem
        if not outcome.problem or spent in outcome.problem:
            return outcome
        return replace(outcome, problem=f"{outcome.problem}; {spent}", instead=_ASK_FOR_LESS)

    def _cut_short(self, problem: str) -> Conclusion:
        instead = SHORTFALLS[Shortfall.TIME_UP].instead if problem == _OUT_OF_TIME else _ASK_FOR_LESS
        return Conclusion(self._strategy.graph(self._ended).achieved, problem, instead)

    def _rows(self) -> tuple[StepRow, ...]:
        undone = self._strategy.graph(self._ended).undone
        return (
            *map(self._row, self._begun.values()),
            *(StepRow(step.id, step.sub_type, f"not run: {step.why}") for step in undone if step.id not in self._begun),
        )

    def _row(self, step: StepOrder) -> StepRow:
        task = self._tasks.get(step.id)
        if task is None:
            ended = self._ended.get(step.id)
            state = ended.problem if ended else f"killed: {_OUT_OF_TIME}"
            return StepRow(step.id, step.sub_type, state)
        state = ": ".join(dict.fromkeys(filter(None, (in_words(task.state.value), _ended(task).problem))))
        return StepRow(step.id, task.sub_type, state, task.duration_ms / 1000, task.tokens, task.id)


def orchestrate_tool(
    delegate: Delegate, types: Callable[[ToolContext], Iterable[str]], scrubber: Scrubber, clock: Clock
) -> Tool:
    """Build `orchestrate`, with sub-agents of the types that there are in a context."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        clean = each_text(arguments, scrubber.for_chat(str(context.key)).scrub)
        bounds = Bounds(
            int(clean.get("tokens_max", limits.ORCHESTRATION_TOKENS)),
            clean.get("usd_max"),
            clean.get("limit_s", limits.ORCHESTRATION_LIMIT_S),
        )
        strategy = strategy_of(clean, tuple(types(context)))
        account = await Orchestration(strategy, bounds, context, delegate, scrubber, clock).play()
        context.reading.is_foreign = True  # they may have read what others wrote
        text = account.text(clock.code(limits.FRAME_CHARS))
        if account.outcome.problem:
            raise ToolError(text)
        return text

    fits = schema()
    return Tool(
        ToolSpec("orchestrate", DESCRIPTION, without_bounds(fits)),
        "sub-agents",
        Risk.READ,
        run,
        fits=fits,
        timeout_s=limits.ORCHESTRATION_LIMIT_S + limits.ORCHESTRATION_GRACE_S,
        protected=True,
        quotes=True,
        only_waits=True,
    )


def _ended(task: SubTask) -> Ended:
    if task.state is TaskState.COMPLETED:
        return Ended(task.result, "" if task.result.strip() else "it left no answer")
    return Ended(task.result, in_words(task.reason or task.state.value))


# Everything that sub-agents need, put together as the settings say.


_PLAN_TYPE: Final = "plan"


async def write_plan(delegate: Delegate, context: ToolContext, task: CleanText) -> CleanText:
    """Have a plan written by a sub-agent, whose calls are charged as planning, and return what it answered. Raises
    `NoPlan` when it gave no answer, and `StoreUnavailable`."""
    order = SubOrder(_PLAN_TYPE, task, limit_s=PLAN_TIMEOUT_S, purpose=UsagePurpose.PLAN, form=PROMPTS.plan)
    try:
        ended = await delegate(context, order)
    except OrderRefused as refused:
        raise NoPlan(refused.said) from refused
    if ended.state is TaskState.COMPLETED:
        return ended.result
    raise NoPlan(lambda words: words.say("the planner did not finish ({reason})", reason=in_words(ended.reason, words)))


@dataclass(frozen=True, slots=True)
class Delegation:
    """The sub-agents of an agent process: how one is started, the tools that ask for them, what runs alongside
    the worker and what lasts longer than a turn; or the tools that are off because there are none."""

    delegate: Delegate
    tools: tuple[Tool, ...] = ()
    loops: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
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
    watch: StatusLines,
    spans: SpanSink,
    ring: Callable[[], None],
    own_types: Callable[[], SubTypeRows],
) -> AsyncIterator[Delegation]:
    """Yield it for as long as the block lasts; then all that still live are ended. `services` are the parent's, which
    a child has not; `workspaces` are those of the file tools, of which a child sees one conversation's; `ring` is
    called when one ends that nobody waits for; `own_types` reads the operator's own types. Raises `ConfigError`."""
    if not settings.enabled:
        yield _nobody()
        return
    hidden = [workspaces.root.parent, Path.home()]
    finding = asyncio.create_task(find_confinement(settings.confinement, hidden=hidden))
    if settings.confinement != AUTO:  # else there is one: the first children wait for it, none ends it for others
        await finding
    tools, scrubber, clock, book = services.tools, services.scrubber, services.clock, store.tasks

    def own() -> SubTypeRows:
        return {name: replace(row, model=row.model or settings.model) for name, row in own_types().items()}

    rows, known_tools = settings.rows(scrubber.scrub), lambda: tools.names
    catalog = Catalog(store.sub_types, clock, rows=rows, own=own, known_tools=known_tools)
    rights = Rights(people)
    registry, limit_s = RunRegistry(worker_id, book, clock), float(settings.limit_s)
    factory = SubagentFactory(catalog, registry, models, store, scrubber, clock, rights=rights.hold, limit_s=limit_s)

    async def supervise(order: ChildOrder, host: Host) -> ChildEnding:
        return await Supervisor(await asyncio.shield(finding), scrubber, clock).supervise(order, host)

    agents = SubAgents(
        factory,
        ChildRunner(services, supervise, workspaces).carry_out,
        defaultdict(lambda: Slots(settings.live_max)),
        book,
        scrubber,
        clock,
        watch=watch,
        spans=spans,
        ring=ring,
    )
    delegating = DelegationTools(
        agents, book, scrubber, clock, limit_s=limit_s, models=models.choosable, usable=tools.usable
    )

    def asking(types: Mapping[str, SubType]) -> tuple[Tool, ...]:
        return (
            *delegating.tools(types),
            WaitTool(book, clock).tool(),
            orchestrate_tool(agents.delegate, delegating.offered, scrubber, clock),
        )

    async with aclosing(agents):
        following = CatalogFollower(catalog, tools, asking)
        loops = (registry.keep, partial(rights.enforce, registry), following.keep)
        try:
            yield Delegation(agents.delegate, await following.tools(), loops, (agents.finish,))
        finally:
            finding.cancel()
            await asyncio.wait([finding])


def _nobody() -> Delegation:
    """Build the delegation for an installation without sub-agents: every tool that needs one is off and says so."""
    names, why = (*DELEGATING, PLAN.name), WORDINGS[NoSubAgent.SWITCHED_OFF].happened
    return Delegation(_refuse, absent=tuple(AbsentTool(name, CATEGORY, why, Risk.READ) for name in names))


async def _refuse(_context: ToolContext, _order: SubOrder) -> SubTask:
    raise OrderRefused(NoSubAgent.SWITCHED_OFF)
