"""The settings of sub-agents, and what a row of their catalog may hold, by whatever way it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StrictInt

from gateway import limits
from gateway.config.section import Section, setting
from gateway.contracts.messages import CleanText
from gateway.contracts.profiles import (
    BUILT_IN,
    CHEAP,
    EVERY_TOOL,
    MCP_PREFIX,
    SUB_TYPE_ROWS,
    SubTypeRows,
    changed_rows,
    is_tool,
)
from gateway.contracts.subagents import SubTypeChange

_TOOL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_UNWRITTEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that nobody writes and no database takes: controls but for the tabulator, halves of surrogate pairs."""

_A_LABEL: Final = f"one line of 1 to {limits.SUB_TYPE_LABEL_CHARS_MAX} characters"
_A_DESCRIPTION: Final = f"one line of 1 to {limits.SUB_TYPE_DESCRIPTION_CHARS_MAX} characters"
_A_PROMPT: Final = f"a text of 1 to {limits.SUB_TYPE_PROMPT_CHARS_MAX} characters, none of them a control character"
_ROUNDS: Final = f"a whole number from 1 to {limits.SUB_TYPE_ROUNDS_MAX}"
_TOOLS: Final = (
    f'a list of at most {limits.SUB_TYPE_TOOLS_MAX} names of tools, or ["{EVERY_TOOL}"] for all of the parent'
)
_KNOWN_TOOLS: Final = f"{', '.join(sorted(BUILT_IN))}, and those of MCP servers, which begin with {MCP_PREFIX}"
_TYPES: Final = f"tables named by the types of sub-agents, which are {', '.join(SUB_TYPE_ROWS)}"


def _line(chars_max: int, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        line = text.strip()
        if not line or len(line) > chars_max or not line.isprintable():
            raise ValueError(f"must be {expected}")
        return line

    return AfterValidator(check)


def _checked_prompt(text: str) -> str:
    lines = text.strip().splitlines()
    if not lines or len(text) > limits.SUB_TYPE_PROMPT_CHARS_MAX or any(map(_UNWRITTEN.search, lines)):
        raise ValueError(f"must be {_A_PROMPT}")
    return "\n".join(lines)


def _checked_tools(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names, of which none is quoted: what is no name of a tool may be anything."""
    named = tuple(dict.fromkeys(tools))
    if named == (EVERY_TOOL,):
        return named
    if len(named) > limits.SUB_TYPE_TOOLS_MAX or not all(map(_TOOL.fullmatch, named)):
        raise ValueError(f"must be {_TOOLS}")
    if not all(map(is_tool, named)):
        raise ValueError(f"must be {_TOOLS}; tools are {_KNOWN_TOOLS}")
    return named


def _checked_rounds(rounds: int) -> int:
    if not 1 <= rounds <= limits.SUB_TYPE_ROUNDS_MAX:
        raise ValueError(f"must be {_ROUNDS}")
    return rounds


def _checked_name(name: str) -> str:
    if name not in SUB_TYPE_ROWS:
        raise ValueError("no such type")
    return name


SubTypeLabel = Annotated[str, _line(limits.SUB_TYPE_LABEL_CHARS_MAX, _A_LABEL)]
SubTypeDescription = Annotated[str, _line(limits.SUB_TYPE_DESCRIPTION_CHARS_MAX, _A_DESCRIPTION)]
SubTypeTools = Annotated[tuple[str, ...], AfterValidator(_checked_tools)]
SubTypeRounds = Annotated[StrictInt, AfterValidator(_checked_rounds)]
SubTypePrompt = Annotated[str, AfterValidator(_checked_prompt)]
SubTypeName = Annotated[str, AfterValidator(_checked_name)]


class SubTypeSetting(Section):
    """The differences of one type from what comes with Trivet."""

    label: SubTypeLabel | None = setting(None, _A_LABEL)
    """What people see of it."""
    description: SubTypeDescription | None = setting(None, _A_DESCRIPTION)
    """What tells the model that delegates when to choose it."""
    tools: SubTypeTools | None = setting(None, _TOOLS)
    """What it may use at most; the policy and its parent's tools bound it further."""
    rounds_max: SubTypeRounds | None = setting(None, _ROUNDS)
    """Rounds of tools; then it has to wrap up."""
    prompt: SubTypePrompt | None = setting(None, _A_PROMPT)
    """What it is told of itself."""
    model: str | None = Field(
        default=None,
        description=f"Its model: an entry of models, any litellm model name, or {CHEAP} for the one of small work. "
        '"": as for all sub-agents.',
    )

    def change(self, clean: Callable[[str], CleanText]) -> SubTypeChange:
        """Return the same as a change of a row; its texts are scrubbed by `clean`."""
        label, description, prompt = (
            None if text is None else clean(text) for text in (self.label, self.description, self.prompt)
        )
        return SubTypeChange(label, description, self.tools, self.rounds_max, prompt)


class SubagentSettings(Section):
    """Sub-agents: child processes without keys, database or network."""

    enabled: bool = True
    """Whether the agent may split work over sub-agents. Off: it has no tools for that."""
    live_max: int = Field(default=16, ge=1, le=limits.SUBAGENTS_PROCESS_MAX)
    """Sub-agents that run at a time in each agent process, at each of the three depths; more wait."""
    limit_s: int = Field(default=300, ge=10, le=3600)
    """Seconds after which a sub-agent is ended, whatever it does."""
    confinement: Literal["auto", "bubblewrap", "landlock", "plain"] = "auto"
    """What holds the process of a sub-agent besides its limits: bubblewrap, Landlock, or nothing more (plain). auto:
    the strongest that this machine has."""
    model: str = ""
    """Model of all sub-agents whose type names none. Empty: that of the conversation they work for, and the one of
    small work for explore, research and reviewer."""
    status_lines: bool = True
    """Whether a chat shows one quiet line for each sub-agent, edited in place."""
    types: Mapping[SubTypeName, SubTypeSetting] = setting({}, _TYPES)
    """What is different about single types: tables such as [subagents.types.code] with label, description, tools,
    rounds_max, prompt and model. An operator's change by the API wins over them."""

    def rows(self, clean: Callable[[str], CleanText]) -> SubTypeRows:
        """Return the catalog as it is configured; texts are scrubbed by `clean`."""
        changes = {name: setting.change(clean) for name, setting in self.types.items()}
        models = {name: setting.model for name, setting in self.types.items() if setting.model is not None}
        return {
            name: replace(row, model=models.get(name, self.model or row.model) or self.model)
            for name, row in changed_rows(SUB_TYPE_ROWS, changes).items()
        }
