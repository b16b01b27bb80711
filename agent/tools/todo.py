"""The task list of a key: what the model has set out to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.limits import TODO_ITEMS_MAX
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.policy import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.sessions import Todo, TodoState
from gateway.scrub import Scrubber
from gateway.store import Store

MARKS: Final = {TodoState.PENDING: "○", TodoState.IN_PROGRESS: "◑", TodoState.DONE: "●"}

_READ: Final = ToolSpec("todo_read", "Read the task list of this conversation.", object_schema({}))
_TODO: Final = object_schema(
    {"text": text_schema(500), "state": {"type": "string", "enum": [state.value for state in TodoState]}},
    "text",
    "state",
)
_WRITE: Final = ToolSpec(
    "todo_write",
    "Replace the task list of this conversation. Pass the whole list, in order.",
    object_schema({"todos": {"type": "array", "maxItems": TODO_ITEMS_MAX, "items": _TODO}}, "todos"),
)


def todo_tools(store: Store, scrubber: Scrubber) -> tuple[Tool, Tool]:
    """Build `todo_read` and `todo_write` on the store."""

    async def read(context: ToolContext, _arguments: Mapping[str, Any]) -> str:
        todos = await store.transcript.todos(context.key)
        return "\n".join(map(todo_line, todos)) or "The task list is empty."

    async def write(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        clean = scrubber.for_chat(str(context.key)).scrub
        todos = [
            Todo(position, clean(item["text"]), TodoState(item["state"]))
            for position, item in enumerate(arguments["todos"], 1)
        ]
        await store.transcript.replace_todos(context.key, todos)
        return "\n".join(map(todo_line, todos)) or "The task list is empty now."

    return (
        Tool(_READ, "tasks", Risk.READ, read, protected=True),
        Tool(_WRITE, "tasks", Risk.READ, write, protected=True, quotes=True),
    )


def todo_line(todo: Todo) -> str:
    """Write one task as the model and the prompt show it."""
    return f"{MARKS[todo.state]} {todo.position}. {todo.text}"
