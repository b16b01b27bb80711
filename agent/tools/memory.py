"""Durable facts of one user: `remember` and `recall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.limits import FACT_CHARS_MAX, RECALL_FACTS_MAX
from agent.memory.knowledge import Memory
from agent.model.client import ToolSpec
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import MemoryFull, ToolError
from gateway.contracts.ports import Scrubber

_REMEMBER: Final = ToolSpec(
    "remember",
    "Keep one durable fact about this user (a preference, a name, a decision) for later conversations.",
    {
        "type": "object",
        "properties": {"fact": {"type": "string", "minLength": 1, "maxLength": FACT_CHARS_MAX}},
        "required": ["fact"],
    },
)
_RECALL: Final = ToolSpec(
    "recall",
    "Search the facts kept about this user. An empty query gives the newest.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "maxLength": 500},
            "limit": {"type": "integer", "minimum": 1, "maximum": RECALL_FACTS_MAX},
        },
        "required": ["query"],
    },
)


def memory_tools(memory: Memory, scrubber: Scrubber) -> tuple[Tool, Tool]:
    """`remember` and `recall`; facts never leave their owner, nor the place where they were learned."""

    async def remember(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        if not arguments["fact"].strip():
            raise ToolError("there is nothing to remember")
        try:
            clean = scrubber.for_chat(str(context.key)).scrub(arguments["fact"].strip())
            fact = await memory.remember(context.key, clean)
        except MemoryFull as error:
            raise ToolError("the memory of this user is full: they can make room with /memory and /forget") from error
        return f"Remembered: {fact.text}"

    async def recall(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        limit = int(arguments.get("limit", 5))
        facts = await memory.recall(context.key, arguments["query"], limit=limit)
        return "\n".join(f"- {fact.text}" for fact in facts) or "Nothing is remembered that matches."

    return (
        Tool(
            _REMEMBER,
            "memory",
            Risk.READ,
            remember,
            instead="Remember the fact without the secret.",
            keeps=lambda _arguments: True,
        ),
        Tool(_RECALL, "memory", Risk.READ, recall, quotes=True),
    )
