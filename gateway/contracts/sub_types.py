"""The types of sub-agents: thirteen rows, and how a row is changed.

The rows stand here, where the configuration, the operator's API and the agent read them. What a type is told about
itself is the agent's: a prompt file of the same name, unless somebody wrote another prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gateway.contracts.messages import CleanText, own_words
from gateway.contracts.subagents import UNCHANGED, SubTypeChange
from gateway.contracts.toolsets import EVERY_TOOL, FILES, READING, RUNNING


@dataclass(frozen=True, slots=True)
class SubTypeRow:
    """One type. `description` tells the model that chooses when to choose it; `tools` is what it may use at most
    (`EVERY_TOOL` alone: all that its parent may); `rounds_max` rounds of tools before it has to wrap up; `prompt` is
    None for the file that comes with Trivet."""

    name: str
    label: CleanText
    description: CleanText
    tools: tuple[str, ...]
    rounds_max: int
    prompt: CleanText | None = None

    def changed(self, change: SubTypeChange) -> SubTypeRow:
        """The same row, but for what the change names."""
        return replace(
            self,
            label=self.label if change.label is None else change.label,
            description=self.description if change.description is None else change.description,
            tools=self.tools if change.tools is None else change.tools,
            rounds_max=self.rounds_max if change.rounds_max is None else change.rounds_max,
            prompt=self.prompt if change.prompt is None else change.prompt,
        )


SubTypeRows = Mapping[str, SubTypeRow]


def changed_rows(rows: SubTypeRows, changes: Mapping[str, SubTypeChange]) -> SubTypeRows:
    """The rows with their changes. A change of a type that is none (of another release) changes nothing."""
    return {name: row.changed(changes.get(name, UNCHANGED)) for name, row in rows.items()}


_EXPLORE: Final = SubTypeRow(
    "explore",
    own_words("Explorer"),
    own_words("Finds where something is, in many files. Read-only."),
    READING,
    6,
)
_GENERAL: Final = SubTypeRow(
    "general",
    own_words("Generalist"),
    own_words("A whole task that fits no other type; has all your tools."),
    (EVERY_TOOL,),
    12,
)
_PLAN: Final = SubTypeRow(
    "plan",
    own_words("Planner"),
    own_words("Plans a larger task: steps, dependencies, risks, rollback. Read-only."),
    READING,
    8,
)
_CODE: Final = SubTypeRow(
    "code",
    own_words("Coder"),
    own_words("Writes or changes code and runs the tests."),
    (*FILES, *RUNNING),
    10,
)
_RESEARCH: Final = SubTypeRow(
    "research",
    own_words("Researcher"),
    own_words("Answers from the web, with sources and dates."),
    ("web_search", "web_fetch", "file_read", "file_list", "file_tree"),
    8,
)
_SECURITY: Final = SubTypeRow(
    "security",
    own_words("Security reviewer"),
    own_words("Looks for weaknesses: severity, place, fix, CWE. Read-only."),
    (*READING, "web_search"),
    10,
)
_DEBUG: Final = SubTypeRow(
    "debug",
    own_words("Debugger"),
    own_words("Finds the cause of a fault and mends it, with a test."),
    (
        *("file_read", "file_write", "file_edit", "file_patch", "file_search", "file_list", "file_tree", "file_info"),
        *RUNNING,
    ),
    12,
)
_ARCHITECT: Final = SubTypeRow(
    "architect",
    own_words("Architect"),
    own_words("Weighs designs and records a decision (ADR). Read-only."),
    READING,
    10,
)
_DEVOPS: Final = SubTypeRow(
    "devops",
    own_words("DevOps engineer"),
    own_words("Works on deployment, configuration and operations."),
    (
        *("file_read", "file_write", "file_edit", "file_search", "file_list", "file_tree", "file_info"),
        *("shell", "web_search"),
    ),
    12,
)
_DATA: Final = SubTypeRow(
    "data",
    own_words("Data analyst"),
    own_words("Answers from data, in files or databases."),
    ("file_read", "file_search", "file_list", "shell", "code_exec", "db_query", "web_search"),
    12,
)
_UI: Final = SubTypeRow(
    "ui",
    own_words("UI developer"),
    own_words("Builds or mends user interfaces."),
    (
        *("file_read", "file_write", "file_edit", "file_patch", "file_search", "file_list", "file_tree"),
        *("shell", "web_search", "browser", "code_exec"),
    ),
    12,
)
_REVIEWER: Final = SubTypeRow(
    "reviewer",
    own_words("Reviewer"),
    own_words("Says what to mend in a change or text. Read-only."),
    (*READING, "web_search"),
    10,
)
_WRITER: Final = SubTypeRow(
    "writer",
    own_words("Writer"),
    own_words("Writes or edits documents."),
    (
        *("file_read", "file_write", "file_edit", "file_search", "file_list", "file_tree"),
        *("shell", "web_search"),
    ),
    10,
)

SUB_TYPE_ROWS: Final[SubTypeRows] = {
    row.name: row
    for row in (
        *(_EXPLORE, _GENERAL, _PLAN, _CODE, _RESEARCH, _SECURITY, _DEBUG),
        *(_ARCHITECT, _DEVOPS, _DATA, _UI, _REVIEWER, _WRITER),
    )
}
"""As they come with Trivet, before configuration and operators changed them."""
