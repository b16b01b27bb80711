"""The sections of a system prompt, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.skills import Skill
from agent.tools.todo import todo_line
from gateway.contracts.entries import Todo, TodoState
from gateway.contracts.ids import SessionKey


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What does not change while the process lives. `channels` are names, never who may use them. With a vault tools
    can be given secrets."""

    product: str
    python: str
    system: str
    channels: tuple[str, ...]
    has_vault: bool = False


def tools_section(tools: Mapping[str, Sequence[str]]) -> str:
    """Tool names by category."""
    lines = [f"- {category}: {', '.join(names)}" for category, names in tools.items()]
    return "\n".join(["# Tools", *(lines or ["None in this place."])])


def skills_section(skills: Iterable[Skill], *, can_load: bool) -> str:
    """Names and descriptions of those that can be loaded, then the text of those that always are."""
    whole = [f"## {skill.name}\n{skill.text}" for skill in skills if skill.is_always_loaded]
    offered = [f"- {skill.name}: {skill.description}" for skill in skills if not skill.is_always_loaded]
    parts = []
    if offered and can_load:
        parts.append("\n".join(["Before work of such a kind, read how with load_skill.", *offered]))
    parts += whole
    return "# Skills\n" + "\n\n".join(parts) if parts else ""


def tasks_section(todos: Iterable[Todo]) -> str:
    """What is still to be done; nothing once all is done."""
    active = [todo_line(todo) for todo in todos if todo.state is not TodoState.DONE]
    return "\n".join(["# Active tasks", *active]) if active else ""


def runtime_section(facts: RuntimeFacts, key: SessionKey) -> str:
    """Where all this runs."""
    return "\n".join(
        [
            "# Runtime",
            f"- Trivet {facts.product}, Python {facts.python} on {facts.system}",
            f"- this conversation: {key}",
            f"- connected channels: {', '.join(facts.channels) or 'none'}",
        ]
    )
