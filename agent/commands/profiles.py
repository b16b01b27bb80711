"""/agent: which profile the session has."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.profiles import DEFAULT, PROFILES
from gateway.contracts.entries import SetProfile

_BACK: Final = frozenset({"default", "none", "reset"})
_NAME_SHOWN: Final = 40  # characters of a name that nobody knows


def profile_commands() -> tuple[CommandRow, ...]:
    """The row of /agent."""

    async def agent(asked: Asked) -> Done:
        name = asked.argument.lower()
        if not name:
            return Done(_list(asked.session.profile))
        if name in _BACK:
            return Done("I am my usual self again.", (SetProfile(DEFAULT.name),))
        if name not in PROFILES:
            near = get_close_matches(name, PROFILES, n=1, cutoff=0.5)
            hint = f"Did you mean **{near[0]}**? Then write `/agent {near[0]}`." if near else "/agent lists them."
            return Done(f"I know no agent called {name[:_NAME_SHOWN]!r}. {hint}")
        return Done(f"In this conversation I am now the **{name}**.", (SetProfile(name),))

    return (CommandRow("agent", "who I am in this conversation: /agent [name]", agent),)


def _list(current: str) -> str:
    lines = [
        f"- **{profile.name}**: {profile.about}{' (current)' if profile.name == current else ''}"
        for profile in PROFILES.values()
    ]
    mark = "" if current in PROFILES else " (current)"
    lines.append(f"- **default**: my usual self{mark}")
    return "Choose with `/agent NAME`:\n\n" + "\n".join(lines)
