"""Agent profiles: who the agent is in a session, and which tools it may use at most. `/agent NAME` selects one.

A profile is a row in `gateway.contracts.profiles` and a file in `prompts/profiles/`. Its tools are a ceiling: they
narrow what the policy grants and widen nothing. Tools of MCP servers are in no list, so only a profile with every
tool has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final, LiteralString

from agent.prompts.library import profile_prompt
from agent.tools.permissions import EVERYTHING, Permissions
from gateway.contracts.messages import CleanText, own_words
from gateway.contracts.profiles import PROFILE_ROWS, ProfileRow
from gateway.contracts.toolsets import EVERY_TOOL


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to be. `about` is its line in the list of /agent."""

    name: str
    about: LiteralString
    prompt: CleanText
    ceiling: Permissions = EVERYTHING


DEFAULT: Final = Profile("", "", own_words(""))
"""What a session has until somebody chooses: no prompt of its own, no ceiling."""


def _profile(row: ProfileRow) -> Profile:
    ceiling = EVERYTHING if EVERY_TOOL in row.tools else Permissions.only(row.tools)
    return Profile(row.name, row.about, profile_prompt(row.name), ceiling)


PROFILES: Final = {name: _profile(row) for name, row in PROFILE_ROWS.items()}


def profile_named(name: str) -> Profile:
    """The profile of a session; the default for no name, and for one that this release does not know."""
    return PROFILES.get(name, DEFAULT)


def ceiling_of(profile: Profile, lists: Iterable[Iterable[str]]) -> Permissions:
    """What a profile may use where every one of these lists of tools has to allow it, too."""
    return reduce(and_, map(Permissions.only, lists), profile.ceiling)
