"""Rows of the agent's profiles and of the sub-agents' types, and the sets of tools that both are made of.

Ten rows that everybody may read. What a profile says of itself is the agent's: a prompt file of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, LiteralString

from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.subagents import UNCHANGED, SubTypeChange

# Tools that go together, by name: what profiles and types of sub-agents are made of.


EVERY_TOOL: Final = "*"
"""In a list of tools: all that the parent may use."""

READING: Final = ("file_read", "file_search", "file_list", "file_tree", "file_info")
WRITING: Final = ("file_write", "file_edit", "file_patch", "file_delete", "file_rename", "file_undo", "file_redo")
FILES: Final = (*READING, *WRITING)
RUNNING: Final = ("shell", "code_exec")
SEARCHING: Final = ("web_search", "web_fetch")
DELEGATING: Final = ("sub_agent", "sub_agent_spawn", "sub_agent_wait", "sub_agent_cancel", "orchestrate")
CONVERSING: Final = (
    *("plan", "schedule"),  # a plan is approved, and a reminder is wanted, by the person in the conversation
    "send_file",  # goes out with an answer to a person; a sub-agent's goes to its parent, which may send the file
    "correct_fact",  # takes away what the person has told
    "todo_write",  # the list is the conversation's, and writing it replaces it whole: under its parent, by several
    *("sub_agent_spawn", "sub_agent_wait", "sub_agent_cancel"),  # what outlives its task would have nobody to wake
)
"""Tools of a conversation with a person: no sub-agent has them, whatever its type says."""

TALKING: Final = (
    *("todo_read", "todo_write", "remember", "recall", "correct_fact", "load_skill", "read_more"),
    *("schedule", "send_file", "plan"),
)
"""Tools of talking with somebody, whatever the work is."""

BUILT_IN: Final = frozenset({*FILES, *RUNNING, *SEARCHING, "browser", "db_query", *DELEGATING, *TALKING})
"""Every tool that is ours, wherever some of them are off."""
MCP_PREFIX: Final = "mcp_"
"""In front of the names of all others, which come and go with their servers."""


def is_tool(name: str) -> bool:
    """Tell whether a tool of this name exists, or may exist once its server is up."""
    return name in BUILT_IN or name.startswith(MCP_PREFIX)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile. `about`, English and the key of its translations, is its line in the list of /agent; `tools` may be
    `EVERY_TOOL` alone."""

    name: str
    about: LiteralString
    tools: tuple[str, ...]


_DRAFTING: Final = ("file_write", "file_edit", "file_undo", "file_redo")


def _profile_row(name: str, about: LiteralString, tools: tuple[str, ...]) -> ProfileRow:
    return ProfileRow(name, about, (*TALKING, *tools))


PROFILE_ROWS: Final[Mapping[str, ProfileRow]] = {
    row.name: row
    for row in (
        ProfileRow("assistant", "helps with anything, with every tool there is", (EVERY_TOOL,)),
        _profile_row("developer", "reads, changes and runs code", (*FILES, *RUNNING, *SEARCHING, *DELEGATING)),
        _profile_row(
            "researcher", "finds things out and says how sure it is", (*READING, *SEARCHING, "browser", *DELEGATING)
        ),
        _profile_row("architect", "weighs designs; changes no code", (*READING, *SEARCHING, *DELEGATING)),
        _profile_row(
            "analyst",
            "works with data and numbers",
            (*READING, *_DRAFTING, *RUNNING, "db_query", "web_search", *DELEGATING),
        ),
        _profile_row("writer", "drafts and edits texts", (*FILES, *SEARCHING)),
        _profile_row(
            "devops", "looks after systems, one reversible step at a time", (*FILES, *SEARCHING, "shell", *DELEGATING)
        ),
        _profile_row("security", "looks for weaknesses; changes nothing", (*READING, *SEARCHING)),
        _profile_row("reviewer", "reads changes and says what to mend; changes nothing", (*READING, "web_search")),
        _profile_row("tester", "writes and runs tests", (*FILES, *RUNNING)),
    )
}
"""In the order of /agent. A profile that delegates hands out no more than it has: the ceiling of a sub-agent lies
below its parent's. Writer, security, reviewer and tester do not: theirs is one pair of eyes on one thing."""


# The types of sub-agents: thirteen rows, and how a row is changed.
#
# The rows are here, where the configuration, the operator's API and the agent read them. What a type is told about
# itself is the agent's: a prompt file of the same name, unless somebody wrote another prompt.


CHEAP: Final = "cheap"
"""In place of a model's name: the one for small work."""


@dataclass(frozen=True, slots=True)
class SubTypeRow:
    """One type. `description` tells the model that chooses when to choose it; `tools` is what it may use at most
    (`EVERY_TOOL` alone: all that its parent may); `rounds_max` rounds of tools before it has to wrap up; `prompt` is
    None for the file that comes with Trivet; `model` is `CHEAP`, or "" for that of the conversation; of each set in
    `needs` it has to have a tool, or its purpose is out of reach."""

    name: str
    label: CleanText
    description: CleanText
    tools: tuple[str, ...]
    rounds_max: int
    prompt: CleanText | None = None
    model: str = ""
    needs: tuple[tuple[str, ...], ...] = ()

    def changed(self, change: SubTypeChange) -> SubTypeRow:
        """Return the same row with the change applied."""
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
    """Return the rows with their changes applied. A change of an unknown type (of another release) changes nothing."""
    return {name: row.changed(changes.get(name, UNCHANGED)) for name, row in rows.items()}


_CHANGING: Final = ("file_write", "file_edit", "file_patch")

_EXPLORE: Final = SubTypeRow(
    "explore",
    literal_text("Explorer"),
    literal_text("Finds where something is, in many files. Read-only."),
    READING,
    6,
    model=CHEAP,
    needs=(READING,),
)
_GENERAL: Final = SubTypeRow(
    "general",
    literal_text("Generalist"),
    literal_text("A whole task that fits no other type; has all your tools."),
    (EVERY_TOOL,),
    12,
)
_PLAN: Final = SubTypeRow(
    "plan",
    literal_text("Planner"),
    literal_text("Plans a larger task: steps, dependencies, risks, rollback. Read-only."),
    READING,
    8,
    needs=(READING,),
)
_CODE: Final = SubTypeRow(
    "code",
    literal_text("Coder"),
    literal_text("Writes or changes code and runs the tests."),
    (*FILES, *RUNNING),
    10,
    needs=(_CHANGING,),
)
_RESEARCH: Final = SubTypeRow(
    "research",
    literal_text("Researcher"),
    literal_text("Answers from the web, with sources and dates."),
    ("web_search", "web_fetch", "file_read", "file_list", "file_tree"),
    8,
    model=CHEAP,
    needs=(("web_search",), ("web_fetch",)),
)
_SECURITY: Final = SubTypeRow(
    "security",
    literal_text("Security reviewer"),
    literal_text("Looks for weaknesses: severity, place, fix, CWE. Read-only."),
    (*READING, "web_search"),
    10,
    needs=(READING,),
)
_DEBUG: Final = SubTypeRow(
    "debug",
    literal_text("Debugger"),
    literal_text("Finds the cause of a fault and mends it, with a test."),
    (
        *("file_read", "file_write", "file_edit", "file_patch", "file_search", "file_list", "file_tree", "file_info"),
        *RUNNING,
    ),
    12,
    needs=(_CHANGING, RUNNING),
)
_ARCHITECT: Final = SubTypeRow(
    "architect",
    literal_text("Architect"),
    literal_text("Weighs designs and records a decision (ADR). Read-only."),
    READING,
    10,
    needs=(READING,),
)
_DEVOPS: Final = SubTypeRow(
    "devops",
    literal_text("DevOps engineer"),
    literal_text("Works on deployment, configuration and operations."),
    (
        *("file_read", "file_write", "file_edit", "file_search", "file_list", "file_tree", "file_info"),
        *("shell", "web_search"),
    ),
    12,
    needs=(("shell", *_CHANGING),),
)
_DATA: Final = SubTypeRow(
    "data",
    literal_text("Data analyst"),
    literal_text("Answers from data, in files or databases."),
    ("file_read", "file_search", "file_list", "shell", "code_exec", "db_query", "web_search"),
    12,
    needs=((*RUNNING, "db_query"),),
)
_UI: Final = SubTypeRow(
    "ui",
    literal_text("UI developer"),
    literal_text("Builds or mends user interfaces."),
    (
        *("file_read", "file_write", "file_edit", "file_patch", "file_search", "file_list", "file_tree"),
        *("shell", "web_search", "browser", "code_exec"),
    ),
    12,
    needs=(_CHANGING,),
)
_REVIEWER: Final = SubTypeRow(
    "reviewer",
    literal_text("Reviewer"),
    literal_text("Says what to mend in a change or text. Read-only."),
    (*READING, "web_search"),
    10,
    model=CHEAP,
    needs=(READING,),
)
_WRITER: Final = SubTypeRow(
    "writer",
    literal_text("Writer"),
    literal_text("Writes or edits documents."),
    (*("file_read", "file_write", "file_edit", "file_search", "file_list", "file_tree"), *("shell", "web_search")),
    10,
    needs=(_CHANGING,),
)

SUB_TYPE_ROWS: Final[SubTypeRows] = {
    row.name: row
    for row in (
        *(_EXPLORE, _GENERAL, _PLAN, _CODE, _RESEARCH, _SECURITY, _DEBUG),
        *(_ARCHITECT, _DEVOPS, _DATA, _UI, _REVIEWER, _WRITER),
    )
}
"""As they come with Trivet, before configuration and operators changed them."""
