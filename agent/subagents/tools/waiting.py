"""`sub_agent_wait`: what background sub-agents have done, now or when enough of them are over.

In a user's turn nobody sits and waits: the turn yields with a barrier, which wakes the session when it is met, on
whichever process. Where no turn can yield (under another engine) the call itself waits. Sub-agents have not got it:
what works for them is waited for by whoever asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.limits import (
    FRAME_CHARS,
    SUBAGENT_RESULTS_CHARS_MAX,
    SUBAGENT_WAIT_LOOK_S,
    SUBAGENT_WAIT_S,
    SUBAGENTS_AWAITED_MAX,
    TOOL_TIMEOUT_S,
)
from agent.model.client import ToolSpec
from agent.subagents.results import result_line, results_text
from agent.tools.permissions import Risk
from agent.tools.schemas import without_bounds
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import Barrier, SubTask, TaskMode, WaitMode
from gateway.store.subagents import TaskStore

_FITS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "maxItems": SUBAGENTS_AWAITED_MAX, "items": {"type": "string", "maxLength": 64}},
        "mode": {"type": "string", "enum": [mode.value for mode in WaitMode]},
        "count": {"type": "integer", "minimum": 1},
    },
}
SUB_AGENT_WAIT: Final = ToolSpec(
    "sub_agent_wait",
    "Get the results of sub-agents in the background (`ids`, else all) when all, any or `count` of them are done. "
    "Until then your turn ends here, and goes on by itself: do not poll.",
    without_bounds(_FITS),
)

_TOO_LONG: Final = "The time to wait is up, and too few of them are done. Wait again, or go on without them."


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


class Waiting:
    """Waits for sub-agents on behalf of whoever started them."""

    def __init__(self, book: TaskStore, clock: Clock) -> None:
        self._book = book
        self._clock = clock

    def tool(self) -> Tool:
        """`sub_agent_wait`. It reads: what the sub-agents may do was decided when they were started."""
        return Tool(
            SUB_AGENT_WAIT,
            "sub-agents",
            Risk.READ,
            self.wait,
            timeout_s=SUBAGENT_WAIT_S + TOOL_TIMEOUT_S,
            only_waits=True,
            fits=_FITS,
        )

    async def wait(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """The results; or, where the turn can yield, the word that it does. Raises `ToolError`, `StoreUnavailable`."""
        awaited = await self._awaited(context, arguments)
        if not awaited.is_met and context.suspension is not None and context.wake is not None:
            context.suspension.wait_for(self._barrier(context, awaited))
            return _waiting_text(awaited)
        if not awaited.is_met:
            awaited = await self._in_place(context, awaited)
        await self._collect(context, [task.id for task in awaited.over])
        results = results_text(awaited.tasks, self._clock.code(FRAME_CHARS), SUBAGENT_RESULTS_CHARS_MAX)
        return results if awaited.is_met else f"{_TOO_LONG}\n\n{results}"

    async def _collect(self, context: ToolContext, task_ids: Sequence[str]) -> None:
        """A turn that is broken off reads them again; where none can yield, nobody keeps count of what it has read."""
        context.reading.is_foreign = True  # they may have read what others wrote, in another turn
        if context.suspension is not None:
            context.suspension.collect(task_ids)
        else:
            await self._book.collect(task_ids)

    async def _awaited(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Awaited:
        tasks = await self._book.tasks_of_session(context.lineage.session_id)
        mine = {task.id: task for task in tasks if task.key == context.key}
        ids = tuple(dict.fromkeys(id_.strip() for id_ in arguments.get("ids") or ()))
        chosen = _named(ids, mine) if ids else tuple(task for task in mine.values() if _is_meant(task, context))
        if not chosen:
            raise ToolError("no sub-agent of this conversation works in the background")
        return _Awaited(chosen, *_condition(arguments, len(chosen)))

    def _barrier(self, context: ToolContext, awaited: _Awaited) -> Barrier:
        """A turn has one at most, so that its id is the same in every run of the turn."""
        assert context.wake is not None
        return Barrier(
            id=f"{context.turn_id}:wait",
            session_id=context.lineage.session_id,
            turn_id=context.turn_id,
            task_ids=tuple(task.id for task in awaited.tasks),
            mode=awaited.mode,
            needed=awaited.needed,
            wake=context.wake,
            created_at_ms=self._clock.now_ms(),
        )

    async def _in_place(self, context: ToolContext, awaited: _Awaited) -> _Awaited:
        """How they stand when enough are over, or when the time is up."""
        until_s = self._clock.monotonic_s() + SUBAGENT_WAIT_S
        while not awaited.is_met and self._clock.monotonic_s() < until_s:
            await asyncio.sleep(SUBAGENT_WAIT_LOOK_S)
            await context.permit()
            found = {task.id: task for task in await self._book.tasks_of_session(context.lineage.session_id)}
            now = tuple(found[task.id] for task in awaited.tasks if task.id in found)  # the rest was erased
            awaited = _Awaited(now, awaited.mode, min(awaited.needed, len(now)))
        return awaited


def _named(ids: Sequence[str], mine: Mapping[str, SubTask]) -> tuple[SubTask, ...]:
    """Only of this session: to wait for oneself, or for a sister, would never end."""
    if unknown := [id_ for id_ in ids if id_ not in mine]:
        known = ", ".join(mine) or "none"
        raise ToolError(f"no sub-agent of this conversation is called {unknown[0]!r}; there are: {known}")
    return tuple(mine[id_] for id_ in ids)


def _is_meant(task: SubTask, context: ToolContext) -> bool:
    """Without ids: what is at work, and what this very turn has started."""
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
