"""The tools that start, await and end sub-agents: `sub_agent`, `sub_agent_spawn`, `sub_agent_cancel`, `sub_agent_wait`.

They are tools that read: a sub-agent may do nothing that its parent may not do, each of its calls is checked as its
parent's own would be, and its cost counts against the same allowance. A policy may name them all the same.

In a user's turn nobody sits and waits: the turn yields with a barrier, which wakes the session when it is met, on
whichever process. Where no turn can yield (under another engine) the call itself waits. Sub-agents have not got
`sub_agent_wait`: their own ones are waited for where they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Final

import structlog

from agent import limits
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.dispatcher import SubAgents
from agent.subagents.runs import SubOrder
from agent.subagents.texts import result_line, results_text
from agent.tools.arguments import without_bounds
from agent.tools.policy import Risk
from agent.tools.registry import ToolRegistry
from agent.tools.results import KeptElsewhere, KeptResult
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import StoreUnavailable, ToolError
from gateway.contracts.ports import Clock
from gateway.contracts.profiles import CHEAP
from gateway.contracts.subagents import Barrier, SubTask, TaskMode, TaskState, WaitMode, WakeAddress
from gateway.scrub import Scrubber
from gateway.store.subagents import TaskStore

_log = structlog.get_logger(__name__)

CATEGORY: Final = "sub-agents"

_INLINE: Final = (
    "Have a sub-agent do a part of the task and wait for its answer; calls in one round run side by side. It sees "
    "nothing of this conversation: say all in `task`. `label`: a few words for the user. Types:"
)
_SPAWNED: Final = "The same as sub_agent, in the background: go on at once, and be told when it is done."
_CANCELLED: Final = "End a sub-agent in the background."


_ID: Final = object_schema({"id": {"type": "string", "maxLength": 40}}, "id")

_FITS: Final = object_schema(
    {
        "ids": {
            "type": "array",
            "maxItems": limits.SUBAGENTS_AWAITED_MAX,
            "items": {"type": "string", "maxLength": 64},
        },
        "mode": {"type": "string", "enum": [mode.value for mode in WaitMode]},
        "count": {"type": "integer", "minimum": 1},
    }
)

SUB_AGENT_WAIT: Final = ToolSpec(
    "sub_agent_wait",
    "Get the results of sub-agents in the background (`ids`, else all) when all, any or `count` of them are done. "
    "Until then your turn ends here, and goes on by itself: do not poll.",
    without_bounds(_FITS),
)

_TOO_LONG: Final = "The time to wait is up, and too few of them are done. Wait again, or go on without them."

SubTypes = Mapping[str, SubType]


@dataclass(eq=False, repr=False)
class DelegationTools:
    """The tools on one dispatcher. `limit_s` is the most that a sub-agent may live; `models` are those that
    everybody may choose; `usable` tells the tools that a context has."""

    agents: SubAgents
    book: TaskStore
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    limit_s: float
    models: Sequence[str]
    usable: Callable[[ToolContext], frozenset[str]]
    _types: SubTypes = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._choosable = tuple(dict.fromkeys((CHEAP, *self.models)))
        self._inline = cache(self._describe_inline)
        self._able = cache(self._able_with)

    def offered(self, context: ToolContext) -> SubTypes:
        """Return the types that have the tools for their purpose in this context."""
        return self._able(self.usable(context))

    def _able_with(self, usable: frozenset[str]) -> SubTypes:
        return {name: row for name, row in self._types.items() if row.is_able(usable)}

    def tools(self, types: SubTypes) -> tuple[Tool, ...]:
        """Build the tools; `types` are those from which the model may choose, each where it is `offered`."""
        self._types = types
        self._inline.cache_clear()
        self._able.cache_clear()
        # One may wait for its turn, too: what ends that is the limit of the turn, or of the sub-agent, that waits.
        waits_s = max(self.limit_s, limits.TURN_TIMEOUT_S) + limits.SUBAGENT_GRACE_S
        choice = _order_schema(types, self._choosable, self.limit_s)
        inline = self._inline(tuple(types))
        spawned = ToolSpec("sub_agent_spawn", _SPAWNED, _told_again(choice))
        cancelled = ToolSpec("sub_agent_cancel", _CANCELLED, without_bounds(_ID))
        return (
            Tool(
                inline,
                CATEGORY,
                Risk.READ,
                self._run,
                fits=choice,
                timeout_s=waits_s,
                quotes=True,
                only_waits=True,
                told=lambda context: self._inline(tuple(self.offered(context))),
            ),
            Tool(spawned, CATEGORY, Risk.READ, self._spawn, fits=choice, quotes=True),
            Tool(cancelled, CATEGORY, Risk.READ, self._cancel, fits=_ID),
        )

    def _describe_inline(self, names: tuple[str, ...]) -> ToolSpec:
        types = {name: self._types[name] for name in names}
        listed = "\n".join(f"- {row.name}: {row.description}" for row in types.values())
        schema = without_bounds(_order_schema(types, self._choosable, self.limit_s))
        return ToolSpec("sub_agent", f"{_INLINE}\n{listed}", schema)

    async def _run(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self.agents.delegate(context, self._order(context, arguments))
        context.reading.is_foreign = True  # it may have read what others wrote
        text = results_text([task], self.clock.code(limits.FRAME_CHARS), limits.SUBAGENT_RESULT_CHARS_MAX)
        if task.state is not TaskState.COMPLETED:
            raise ToolError(text)
        return text

    async def _spawn(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self.agents.spawn(context, self._order(context, arguments))
        return f"{result_line(task)} You are told when it is done; sub_agent_wait waits for it."

    async def _cancel(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self.agents.cancel(await _own(self.book, context, arguments["id"].strip()))
        return result_line(task)

    def _order(self, context: ToolContext, arguments: Mapping[str, Any]) -> SubOrder:
        offered = self.offered(context)
        if arguments["type"] not in offered:
            raise ToolError(
                f"{arguments['type']} lacks the tools for its purpose here; there are: {', '.join(offered)}"
            )
        clean = self.scrubber.for_chat(str(context.key)).scrub
        return SubOrder(
            arguments["type"],
            clean(arguments["task"]),
            clean(arguments.get("label", "")),
            arguments.get("limit_s"),
            model=arguments.get("model", ""),
        )


def answers_of(book: TaskStore) -> KeptElsewhere:
    """Build the lookup of sub-agents' answers by their task ids, for `read_more`; it works in every process."""

    async def find(handle: str) -> KeptResult | None:
        task = await book.task(handle)
        return KeptResult(task.key, task.result, foreign=True) if task is not None and task.result else None

    return find


async def _own(book: TaskStore, context: ToolContext, task_id: str) -> SubTask:
    """Return the task of that id if it works for this session. One of another session looks the same as none."""
    task = await book.task(task_id)
    if task is None or task.key != context.key or task.parent_session_id != context.call_origin.session_id:
        raise ToolError("this conversation has no sub-agent of that id")
    return task


def _order_schema(types: Mapping[str, SubType], models: Sequence[str], limit_s: float) -> Mapping[str, Any]:
    properties = {
        "type": {"type": "string", "enum": list(types)},
        "task": text_schema(limits.SUBAGENT_PROMPT_CHARS_MAX),
        "label": {"type": "string", "maxLength": limits.SUBAGENT_LABEL_CHARS_MAX},
        "limit_s": {"type": "number", "exclusiveMinimum": 0, "maximum": limit_s},
        "model": {"type": "string", "enum": list(models)},
    }
    return object_schema(properties, "type", "task") | {"additionalProperties": False}


def _told_again(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the lists of types and models from the schema: they are in the prompt once already."""
    told = without_bounds(choice)
    return {**told, "properties": {**told["properties"], **{key: {"type": "string"} for key in ("type", "model")}}}


@dataclass(frozen=True, slots=True)
class _Awaited:
    """The tasks that a call is about; enough are over when `needed` are."""

    tasks: tuple[SubTask, ...]
    mode: WaitMode
    needed: int

    @property
    def over(self) -> tuple[SubTask, ...]:
        return tuple(task for task in self.tasks if task.state.is_over)

    @property
    def is_met(self) -> bool:
        return len(self.over) >= self.needed


class WaitTool:
    """Waits for sub-agents on behalf of the conversation that started them."""

    def __init__(self, book: TaskStore, clock: Clock) -> None:
        self._book = book
        self._clock = clock

    def tool(self) -> Tool:
        """Build `sub_agent_wait`. It only reads: what the sub-agents may do was decided when they were started."""
        return Tool(
            SUB_AGENT_WAIT,
            "sub-agents",
            Risk.READ,
            self.wait,
            timeout_s=limits.SUBAGENT_WAIT_S + limits.TOOL_TIMEOUT_S,
            only_waits=True,
            fits=_FITS,
        )

    async def wait(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """Wait and return the results; or, where the turn can yield, a note that it does. Raises `ToolError`,
        `StoreUnavailable`."""
        awaited = await self._awaited(context, arguments)
        if not awaited.is_met and context.suspension is not None and context.wake is not None:
            context.suspension.wait_for(self._barrier(context, awaited, context.wake))
            return _waiting_text(awaited)
        if not awaited.is_met:
            awaited = await self._in_place(context, awaited)
        await self._collect(context, [task.id for task in awaited.over])
        results = results_text(awaited.tasks, self._clock.code(limits.FRAME_CHARS), limits.SUBAGENT_RESULTS_CHARS_MAX)
        return results if awaited.is_met else f"{_TOO_LONG}\n\n{results}"

    async def _collect(self, context: ToolContext, task_ids: Sequence[str]) -> None:
        """Note that the results were read: with the turn's commit, so that a turn that is broken off reads them again;
        at once where the turn cannot yield."""
        context.reading.is_foreign = True  # they may have read what others wrote, in another turn
        if context.suspension is not None:
            context.suspension.collect(task_ids)
        else:
            await self._book.collect(task_ids)

    async def _awaited(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Awaited:
        tasks = await self._book.tasks_of_session(context.call_origin.session_id)
        mine = {task.id: task for task in tasks if task.key == context.key}
        ids = tuple(dict.fromkeys(id_.strip() for id_ in arguments.get("ids") or ()))
        chosen = _named(ids, mine) if ids else tuple(task for task in mine.values() if _is_meant(task, context))
        if not chosen:
            raise ToolError("no sub-agent of this conversation works in the background")
        return _Awaited(chosen, *_condition(arguments, len(chosen)))

    def _barrier(self, context: ToolContext, awaited: _Awaited, wake: WakeAddress) -> Barrier:
        """Build the barrier. A turn has at most one, so that its id is the same in every run of the turn."""
        return Barrier(
            id=f"{context.turn_id}:wait",
            session_id=context.call_origin.session_id,
            turn_id=context.turn_id,
            task_ids=tuple(task.id for task in awaited.tasks),
            mode=awaited.mode,
            needed=awaited.needed,
            wake=wake,
            created_at_ms=self._clock.now_ms(),
        )

    async def _in_place(self, context: ToolContext, awaited: _Awaited) -> _Awaited:
        """Wait without yielding, until enough tasks are over or the time is up, and return their states."""
        until_s = self._clock.monotonic_s() + limits.SUBAGENT_WAIT_S
        while not awaited.is_met and self._clock.monotonic_s() < until_s:
            await asyncio.sleep(limits.SUBAGENT_WAIT_LOOK_S)
            await context.permit()
            found = {task.id: task for task in await self._book.tasks_of_session(context.call_origin.session_id)}
            now = tuple(found[task.id] for task in awaited.tasks if task.id in found)  # the rest was erased
            awaited = _Awaited(now, awaited.mode, min(awaited.needed, len(now)))
        return awaited


def _named(ids: Sequence[str], mine: Mapping[str, SubTask]) -> tuple[SubTask, ...]:
    """Find the tasks of these ids, only among those of this session: a sub-agent that waits for itself or a sibling
    would never end."""
    if unknown := [id_ for id_ in ids if id_ not in mine]:
        known = ", ".join(mine) or "none"
        raise ToolError(f"no sub-agent of this conversation is called {unknown[0]!r}; there are: {known}")
    return tuple(mine[id_] for id_ in ids)


def _is_meant(task: SubTask, context: ToolContext) -> bool:
    """Tell whether a call without ids means this task: it is in the background, and either live or started by this
    turn."""
    return task.mode is TaskMode.BACKGROUND and (not task.state.is_over or task.turn_id == context.turn_id)


def _condition(arguments: Mapping[str, Any], tasks: int) -> tuple[WaitMode, int]:
    count = arguments.get("count")
    mode = WaitMode(arguments.get("mode") or (WaitMode.ALL if count is None else WaitMode.COUNT))
    if mode is not WaitMode.COUNT:
        return mode, 1 if mode is WaitMode.ANY else tasks
    if count is None:
        raise ToolError("mode count needs `count`: how many have to be done")
    if count > tasks:
        raise ToolError(f"`count` is {count}, and there are only {tasks} to wait for")
    return mode, int(count)


def _waiting_text(awaited: _Awaited) -> str:
    lines = "\n".join(f"- {result_line(task)}" for task in awaited.tasks)
    count = f"{awaited.needed} of {len(awaited.tasks)}"
    return f"Waiting until {count} are done; the results will come by themselves.\n{lines}"


class CatalogFollower:
    """Keeps the tools that ask for sub-agents as the catalog reads now.

    What an operator says of a type reaches the model in its next turn, and changes the beginning of its prompts once.
    `made` makes the tools for the types that a model may choose from, always the same ones by name."""

    def __init__(self, catalog: Catalog, registry: ToolRegistry, made: Callable[[SubTypes], tuple[Tool, ...]]) -> None:
        self._catalog = catalog
        self._registry = registry
        self._made = made
        self._types: SubTypes = {}

    async def tools(self) -> tuple[Tool, ...]:
        """Return them as the catalog reads at the start. Raises `StoreUnavailable`."""
        self._types = await self._catalog.current()
        return self._made(_on(self._types))

    async def keep(self) -> None:
        """Offer them anew whenever the catalog reads differently, until cancelled."""
        while True:
            await asyncio.sleep(limits.SUB_TYPES_LOOK_EVERY_S)
            try:
                types = await self._catalog.current()
            except StoreUnavailable:  # an order gets this error itself; the offered list can wait
                continue
            if types != self._types:
                self._types = types
                self._registry.exchange(self._made(_on(types)))
                _log.info("subagents.offered_anew")


def _on(types: SubTypes) -> SubTypes:
    return {name: sub_type for name, sub_type in types.items() if not sub_type.is_off}
