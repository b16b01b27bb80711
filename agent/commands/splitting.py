"""Whether whoever says a command may have tasks split among sub-agents: /help tells only those."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked
from agent.tools.permissions import Place
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext

_SPLIT: Final = frozenset({"sub_agent", "sub_agent_spawn", "orchestrate"})


def may_split(tools: ToolRegistry, asked: Asked) -> bool:
    """True where a turn of this person, in this place, is offered a tool that asks for sub-agents."""
    key, place = asked.session.key, Place.DM if asked.message.is_private else Place.GROUP
    context = ToolContext(key, key.owner, asked.turn_id, role=asked.role, place=place, ceiling=asked.ceiling)
    return any(spec.name in _SPLIT for spec in tools.specs_for(context))
