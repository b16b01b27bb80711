"""Agent profiles: who the agent is in a session, and which tools it may use at most. `/agent NAME` selects one.

A profile is a row here and a file in `prompts/profiles/`. Its tools are a ceiling: they narrow what the policy
grants and widen nothing. Tools of MCP servers are in no list, so only a profile without one has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.prompts.library import profile_prompt
from agent.tools.permissions import EVERYTHING, Permissions
from gateway.contracts.messages import CleanText, own_words


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to be. `about` is its line in the list of /agent."""

    name: str
    about: str
    prompt: CleanText
    ceiling: Permissions = EVERYTHING


_ALWAYS: Final = frozenset(
    {
        *("todo_read", "todo_write", "remember", "recall", "load_skill", "read_more"),
        *("schedule", "send_file", "plan"),
    }
)
"""What belongs to talking with somebody, whatever the work is."""

_READING: Final = frozenset({"file_read", "file_search", "file_list", "file_tree", "file_info"})
_WRITING: Final = frozenset({"file_write", "file_edit", "file_undo", "file_redo"})
_FILES: Final = _READING | _WRITING | {"file_patch", "file_delete", "file_rename"}
_RUNNING: Final = frozenset({"shell", "code_exec"})
_SEARCHING: Final = frozenset({"web_search", "web_fetch"})


def _profile(name: str, about: str, tools: Iterable[str]) -> Profile:
    return Profile(name, about, profile_prompt(name), Permissions.only(_ALWAYS.union(tools)))


DEFAULT: Final = Profile("", "", own_words(""))
"""What a session has until somebody chooses: no prompt of its own, no ceiling."""

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("assistant", "helps with anything, with every tool there is", profile_prompt("assistant")),
        _profile("developer", "reads, changes and runs code", _FILES | _RUNNING | _SEARCHING),
        _profile("researcher", "finds things out and says how sure it is", _READING | _SEARCHING | {"browser"}),
        _profile("architect", "weighs designs; changes no code", _READING | _SEARCHING),
        _profile("analyst", "works with data and numbers", _READING | _WRITING | _RUNNING | {"db_query", "web_search"}),
        _profile("writer", "drafts and edits texts", _FILES | _SEARCHING),
        _profile("devops", "looks after systems, one reversible step at a time", _FILES | _SEARCHING | {"shell"}),
        _profile("security", "looks for weaknesses; changes nothing", _READING | _SEARCHING),
        _profile("reviewer", "reads changes and says what to mend; changes nothing", _READING | {"web_search"}),
        _profile("tester", "writes and runs tests", _FILES | _RUNNING),
    )
}


def profile_named(name: str) -> Profile:
    """The profile of a session; the default for no name, and for one that this release does not know."""
    return PROFILES.get(name, DEFAULT)
