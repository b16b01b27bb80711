"""Presets: what Trivet is for, and the defaults that follow from it. A key that somebody sets wins over its preset."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Preset(StrEnum):
    """The people a Trivet is for."""

    NONE = ""
    ME = "me"
    TEAM = "team"
    COMMUNITY = "community"


_IDLE_HOURS: Final = 72  # after a long weekend nobody goes on where they were, and the old part is paid for each time
_COMMUNITY_IDLE_HOURS: Final = 24

PRESETS: Final[Mapping[Preset, Mapping[str, Any]]] = {
    Preset.NONE: {},
    Preset.ME: {
        "tools.policy": (
            *("allow write for admin", "allow shell for admin", "allow code_exec for admin"),
            *("allow web_search for admin", "allow web_fetch for admin"),
        ),
        "tools.web.engine": "ddgs",
        "session.idle_hours": _IDLE_HOURS,
        "limits.pot.usd": 10.0,
    },
    Preset.TEAM: {
        "tools.policy": (
            *("allow write for member+admin", "allow shell for member+admin", "allow code_exec for member+admin"),
            *("allow web_search for member+admin", "allow web_fetch for member+admin"),
        ),
        "tools.web.engine": "ddgs",
        "session.idle_hours": _IDLE_HOURS,
        "limits.member.usd": 5.0,
    },
    Preset.COMMUNITY: {
        "session.idle_hours": _COMMUNITY_IDLE_HOURS,
        "limits.guest.turns": 20,
        "limits.guest.usd": 0.5,
        "limits.member.turns": 50,
        "limits.member.usd": 1.0,
        "limits.member.messages_per_minute": 10,
    },
}
"""The settings of each preset by their keys. Policy lines name shell and code_exec, which run in the sandbox, and not
their risk: what an MCP server executes is outside it."""
