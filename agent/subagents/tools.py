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
from agent.subagents.dispatcher import SubAgents
from agent.subagents.dispatching import SubOrder
from agent.subagents.results import result_line, results_text
from agent.tools.permissions import Risk
from agent.tools.shelf import Kept, KeptElsewhere
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock, Scrubber, SubTaskBook
from gateway.contracts.subagents import SubTask, TaskState

CATEGORY: Final = "sub-agents"

_ABOUT: Final = (
    "A sub-agent works on one part of the task in a process of its own. It sees nothing of this conversation: write "
    "all that it has to know into `task`. It can use no tool that you cannot. "
)
_INLINE: Final = (
    f"Have a sub-agent do a part of the task, and wait for its answer. {_ABOUT}Calls in one round run side by side. "
    "The types:"
)
_SPAWNED: Final = (
    f"Start a sub-agent in the background and go on at once; you are told when it is done. {_ABOUT}The types are those "
    "of sub_agent."
)
_CANCELLED: Final = "End a sub-agent that you started in the background. What it has not said by then is lost."


def subagent_tools(
    agents: SubAgents,
    book: SubTaskBook,
    types: Mapping[str, SubType],
    scrubber: Scrubber,
    clock: Clock,
    *,
    limit_s: float,
) -> tuple[Tool, ...]:
    """The tools on this dispatcher. `types` are what the model may choose from, as they read when the process began:
    what stands in a prompt does not change under a conversation. `limit_s` is the most that a sub-agent may live."""

    def ordered(context: ToolContext, arguments: Mapping[str, Any]) -> SubOrder:
        clean = scrubber.for_chat(str(context.key)).scrub
        return SubOrder(
            arguments["type"], clean(arguments["task"]), clean(arguments.get("label", "")), arguments.get("limit_s")
        )

    async def inline(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await agents.run(context, ordered(context, arguments))
        text = results_text([task], clock.code(FRAME_CHARS), SUBAGENT_RESULT_CHARS_MAX)
        if task.state is not TaskState.COMPLETED:
            raise ToolError(text)
        return text

    async def spawned(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await agents.spawn(context, ordered(context, arguments))
        return f"{result_line(task)} You are told when it is done; sub_agent_wait waits for it."

    async def cancelled(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        task = await agents.cancel(await _own(book, context, arguments["id"].strip()))
        return result_line(task)

    # A sub-agent may wait for its turn, too: what ends that is the limit of the turn, or of the sub-agent, that waits.
    waits_s = max(limit_s, TURN_TIMEOUT_S) + SUBAGENT_GRACE_S
    choice = _order_schema(types, limit_s)
    listed = "\n".join(f"- {row.name}: {row.description}" for row in types.values())
    return (
        Tool(
            ToolSpec("sub_agent", f"{_INLINE}\n{listed}", choice),
            CATEGORY,
            Risk.READ,
            inline,
            timeout_s=waits_s,
            quotes=True,
            only_waits=True,
        ),
        Tool(ToolSpec("sub_agent_spawn", _SPAWNED, choice), CATEGORY, Risk.READ, spawned, quotes=True),
        Tool(ToolSpec("sub_agent_cancel", _CANCELLED, _ID_SCHEMA), CATEGORY, Risk.READ, cancelled),
    )


def answers_of(book: SubTaskBook) -> KeptElsewhere:
    """Answers of sub-agents by the ids of their tasks, for `read_more`: on whichever process."""

    async def find(handle: str) -> Kept | None:
        task = await book.task(handle)
        return Kept(task.key, task.result, foreign=True) if task is not None and task.result else None

    return find


async def _own(book: SubTaskBook, context: ToolContext, task_id: str) -> SubTask:
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
            "label": {
                "type": "string",
                "maxLength": SUBAGENT_LABEL_CHARS_MAX,
                "description": "A few words for the user who watches.",
            },
            "limit_s": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": limit_s,
                "description": "Seconds after which it is ended.",
            },
        },
        "required": ["type", "task"],
    }


_ID_SCHEMA: Final = {"type": "object", "properties": {"id": {"type": "string", "maxLength": 40}}, "required": ["id"]}
