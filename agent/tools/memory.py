"""Durable facts of one user: `remember` and `recall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.limits import FACT_CHARS_MAX, RECALL_FACTS_MAX
from agent.model.client import ToolSpec
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.ports import Clock, Scrubber, Store

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


def memory_tools(store: Store, scrubber: Scrubber, clock: Clock) -> tuple[Tool, Tool]:
    """`remember` and `recall` on the store; facts never leave their owner."""

    async def remember(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        fact = await store.remember(context.owner, scrubber.scrub(arguments["fact"]), now_ms=clock.now_ms())
        return f"Remembered: {fact.text}"

    async def recall(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        limit = int(arguments.get("limit", 5))
        facts = await store.recall(context.owner, arguments["query"], limit=limit)
        return "\n".join(f"- {fact.text}" for fact in facts) or "Nothing is remembered that matches."

    return (
        Tool(_REMEMBER, "memory", Risk.READ, remember),
        Tool(_RECALL, "memory", Risk.READ, recall),
    )
