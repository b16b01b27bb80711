"""The agent profiles: who the agent can be in a conversation, and which tools it may use then.

Ten rows that everybody may read. What a profile says of itself is the agent's: a prompt file of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, LiteralString

from gateway.contracts.toolsets import DELEGATING, EVERY_TOOL, FILES, READING, RUNNING, SEARCHING, TALKING


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
            "researcher",
            "finds things out and says how sure it is",
            (*READING, *SEARCHING, "browser", *DELEGATING),
        ),
        _profile_row("architect", "weighs designs; changes no code", (*READING, *SEARCHING, *DELEGATING)),
        _profile_row(
            "analyst",
            "works with data and numbers",
            (*READING, *_DRAFTING, *RUNNING, "db_query", "web_search", *DELEGATING),
        ),
        _profile_row("writer", "drafts and edits texts", (*FILES, *SEARCHING)),
        _profile_row(
            "devops",
            "looks after systems, one reversible step at a time",
            (*FILES, *SEARCHING, "shell", *DELEGATING),
        ),
        _profile_row("security", "looks for weaknesses; changes nothing", (*READING, *SEARCHING)),
        _profile_row("reviewer", "reads changes and says what to mend; changes nothing", (*READING, "web_search")),
        _profile_row("tester", "writes and runs tests", (*FILES, *RUNNING)),
    )
}
"""In the order of /agent. A profile that delegates hands out no more than it has: the ceiling of a sub-agent lies
below its parent's. Writer, security, reviewer and tester do not: theirs is one pair of eyes on one thing."""
