"""The built-in prompts as values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import resources
from typing import Final

from gateway.contracts.messages import CleanText


@dataclass(frozen=True, slots=True)
class PromptLibrary:
    """Our own words: the same for every user, so they need no scrubbing."""

    system: CleanText
    vault: CleanText
    title: CleanText
    summary: CleanText
    wrap_up: CleanText
    gather: CleanText
    heartbeat: CleanText
    plan: CleanText
    delegated: CleanText
    woken: CleanText
    look: CleanText


def load_prompts() -> PromptLibrary:
    """Read every prompt file. A missing or empty one stops the start (`FileNotFoundError`, `ValueError`)."""
    return PromptLibrary(*(_read(field.name) for field in fields(PromptLibrary)))


def profile_prompt(name: str) -> CleanText:
    """What the agent profile `name` says of itself. Raises as `load_prompts` does."""
    return _read(f"profiles/{name}")


def sub_type_prompt(name: str) -> CleanText:
    """What sub-agents of the type `name` are told of themselves. Raises as `load_prompts` does."""
    return _read(f"subagents/{name}")


def strategy_prompt(name: str) -> CleanText:
    """What a sub-agent is told about its place in an orchestration. Raises as `load_prompts` does."""
    return _read(f"strategies/{name}")


def _read(name: str) -> CleanText:
    text = resources.files(__package__).joinpath(f"{name}.md").read_text("utf-8").strip()
    if not text:
        raise ValueError(f"the prompt {name}.md is empty")
    return CleanText(text)


PROMPTS: Final = load_prompts()
