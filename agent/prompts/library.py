"""The built-in prompts as values, and the agent profiles made of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Final, LiteralString

from agent.tools.policy import EVERYTHING, Permissions
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.profiles import EVERY_TOOL, PROFILE_ROWS, ProfileRow


@dataclass(frozen=True, slots=True)
class PromptLibrary:
    """Our own words: the same for every user, so they need no scrubbing."""

    system: CleanText
    remember: CleanText
    hand_over: CleanText
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
    return PromptLibrary(*(load_prompt(field.name) for field in fields(PromptLibrary)))


def load_prompt(name: str) -> CleanText:
    """Read one prompt file, such as `subagents/explore`. Raises as `load_prompts` does."""
    text = resources.files(__package__).joinpath(f"{name}.md").read_text("utf-8").strip()
    if not text:
        raise ValueError(f"the prompt {name}.md is empty")
    return CleanText(text)


PROMPTS: Final = load_prompts()

RENDERING: Final[Mapping[str, str]] = tomllib.loads(
    resources.files(__package__).joinpath("rendering.toml").read_text("utf-8")
)
"""Each platform's rendering of an answer, by the platform's name."""


# Agent profiles: who the agent is in a session, and which tools it may use at most. `/agent NAME` selects one.
#
# A profile is a row in `gateway.contracts.profiles` and a file in `prompts/profiles/`. Its tools are a ceiling: they
# narrow what the policy grants and widen nothing. Tools of MCP servers are in no list, so only a profile with every
# tool has them.


@dataclass(frozen=True, slots=True)
class Profile:
    """One character of the agent. `about` is its line in the list of /agent."""

    name: str
    about: LiteralString
    prompt: CleanText
    ceiling: Permissions = EVERYTHING


DEFAULT_PROFILE: Final = Profile("", "", literal_text(""))
"""The profile of a session until somebody chooses one: no prompt of its own, no ceiling."""


def ceiling_for(tools: tuple[str, ...]) -> Permissions:
    """Return the ceiling that a list of tools is."""
    return EVERYTHING if EVERY_TOOL in tools else Permissions.only(tools)


def _profile(row: ProfileRow) -> Profile:
    return Profile(row.name, row.about, load_prompt(f"profiles/{row.name}"), ceiling_for(row.tools))


PROFILES: Final = {name: _profile(row) for name, row in PROFILE_ROWS.items()}
