"""`load_skill`: the whole text of a skill, when the model needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from agent.model.client import ToolSpec
from agent.skills import Skill
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey

LOAD_SKILL: Final = "load_skill"
_SPEC: Final = ToolSpec(
    LOAD_SKILL,
    "Read the whole text of one of the skills that are listed in your instructions.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64}},
        "required": ["name"],
    },
)


def skill_tools(skills_of: Callable[[SessionKey], Mapping[str, Skill]]) -> tuple[Tool]:
    """The tool, on the skills that each owner has."""

    async def load(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        skills, name = skills_of(context.owner), str(arguments["name"]).strip().lower()
        if name in skills:
            return skills[name].text
        near = get_close_matches(name, skills, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(skills)}"
        raise ToolError(f"there is no skill {name!r}; {hint}")

    return (Tool(_SPEC, "skills", Risk.READ, load, protected=True),)
