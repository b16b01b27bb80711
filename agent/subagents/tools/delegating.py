"""`sub_agent`, `sub_agent_spawn` and `sub_agent_cancel`.

They are tools that read: a sub-agent may do nothing that whoever starts it may not do, each of its calls is checked
as its parent's own would be, and what it costs counts against the same allowance. A policy may name them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.limits import (
    FRAME_CHARS,
    SUBAGENT_GRACE_S,
    SUBAGENT_LABEL_CHARS_MAX,
    SUBAGENT_PROMPT_CHARS_MAX,
    SUBAGENT_RESULT_CHARS_MAX,
    TURN_TIMEOUT_S,
)
from agent.model.client import ToolSpec
from agent.subagents.catalog import SubType
from agent.subagents.life.dispatcher import SubAgents
from agent.subagents.life.orders import SubOrder
from agent.subagents.results import result_line, results_text
from agent.tools.permissions import Risk
from agent.tools.schemas import without_bounds
from agent.tools.shelf import Kept, KeptElsewhere
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.subagents import SubTask, TaskState
from gateway.store.subagents import TaskStore

CATEGORY: Final = "sub-agents"

_INLINE: Final = (
    "Have a sub-agent do a part of the task and wait for its answer; calls in one round run side by side. It sees "
    "nothing of this conversation: `task` says all that it has to know. `label`: a few words for the user. Types:"
)
_SPAWNED: Final = "The same as sub_agent, in the background: go on at once, and be told when it is done."
_CANCELLED: Final = "End a sub-agent in the background."


class Delegating:
    """The tools on one dispatcher. `limit_s` is the most that a sub-agent may live."""

    def __init__(self, agents: SubAgents, book: TaskStore, scrubber: Scrubber, clock: Clock, *, limit_s: float) -> None:
        self._agents = agents
        self._book = book
        self._scrubber = scrubber
        self._clock = clock
        self._limit_s = limit_s

    def tools(self, types: Mapping[str, SubType]) -> tuple[Tool, ...]:
        """`types` are what the model may choose from."""
        # One may wait for its turn, too: what ends that is the limit of the turn, or of the sub-agent, that waits.
        waits_s = max(self._limit_s, TURN_TIMEOUT_S) + SUBAGENT_GRACE_S
        choice = _order_schema(types, self._limit_s)
        listed = "\n".join(f"- {row.name}: {row.description}" for row in types.values())
        inline = ToolSpec("sub_agent", f"{_INLINE}\n{listed}", without_bounds(choice))
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
            ),
            Tool(spawned, CATEGORY, Risk.READ, self._spawn, fits=choice, quotes=True),
            Tool(cancelled, CATEGORY, Risk.READ, self._cancel, fits=_ID),
        )

    async def _run(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self._agents.run(context, self._order(context, arguments))
        context.reading.is_foreign = True  # it may have read what others wrote
        text = results_text([task], self._clock.code(FRAME_CHARS), SUBAGENT_RESULT_CHARS_MAX)
        if task.state is not TaskState.COMPLETED:
            raise ToolError(text)
        return text

    async def _spawn(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self._agents.spawn(context, self._order(context, arguments))
        return f"{result_line(task)} You are told when it is done; sub_agent_wait waits for it."

    async def _cancel(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await self._agents.cancel(await _own(self._book, context, arguments["id"].strip()))
        return result_line(task)

    def _order(self, context: ToolContext, arguments: Mapping[str, Any]) -> SubOrder:
        clean = self._scrubber.for_chat(str(context.key)).scrub
        return SubOrder(
            arguments["type"], clean(arguments["task"]), clean(arguments.get("label", "")), arguments.get("limit_s")
        )


def answers_of(book: TaskStore) -> KeptElsewhere:
    """Answers of sub-agents by the ids of their tasks, for `read_more`: on whichever process."""

    async def find(handle: str) -> Kept | None:
        task = await book.task(handle)
        return Kept(task.key, task.result, foreign=True) if task is not None and task.result else None

    return find


async def _own(book: TaskStore, context: ToolContext, task_id: str) -> SubTask:
    """The task of that id, if it works for this session. Nobody else's can be told from none."""
    task = await book.task(task_id)
    if task is None or task.key != context.key or task.parent_session_id != context.lineage.session_id:
        raise ToolError("this conversation has no sub-agent of that id")
    return task


def _order_schema(types: Mapping[str, SubType], limit_s: float) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": list(types)},
            "task": {"type": "string", "minLength": 1, "maxLength": SUBAGENT_PROMPT_CHARS_MAX},
            "label": {"type": "string", "maxLength": SUBAGENT_LABEL_CHARS_MAX},
            "limit_s": {"type": "number", "exclusiveMinimum": 0, "maximum": limit_s},
        },
        "required": ["type", "task"],
        "additionalProperties": False,
    }


def _told_again(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The types stand once in a prompt."""
    told = without_bounds(choice)
    return {**told, "properties": {**told["properties"], "type": {"type": "string"}}}


_ID: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"id": {"type": "string", "maxLength": 40}},
    "required": ["id"],
}
