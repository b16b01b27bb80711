"""/agent: which profile the session has."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.offering import Offer
from agent.profiles import DEFAULT, PROFILES
from gateway.contracts.entries import SetProfile
from gateway.words import Words

_BACK: Final = frozenset({"default", "none", "reset"})
_NAME_SHOWN: Final = 40  # characters of a name that nobody knows


def profile_commands() -> tuple[CommandRow, ...]:
    """The row of /agent."""

    async def agent(asked: Asked) -> Done:
        name, words = asked.argument.lower(), asked.words
        if not name:
            offers = tuple(
                Offer(each, f"/agent {each}") for each in (*PROFILES, "default") if each != asked.session.profile
            )
            return Done(_list(asked.session.profile, words), offers=offers)
        if name in _BACK:
            return Done(words.say("I am my usual self again."), (SetProfile(DEFAULT.name),))
        if name not in PROFILES:
            return Done(_unknown(name, words))
        return Done(words.say("In this conversation I am now the **{name}**.", name=name), (SetProfile(name),))

    return (CommandRow("agent", agent),)


def _unknown(name: str, words: Words) -> str:
    near = get_close_matches(name, PROFILES, n=1, cutoff=0.5)
    hint = (
        words.say("Did you mean **{name}**? Then write `/agent {name}`.", name=near[0])
        if near
        else words.say("/agent lists them.")
    )
    return words.say("I know no agent called '{name}'. {hint}", name=name[:_NAME_SHOWN], hint=hint)


def _list(current: str, words: Words) -> str:
    mark = " " + words.say("(current)")
    lines = [
        f"- **{profile.name}**: {words.say(profile.about)}{mark if profile.name == current else ''}"
        for profile in PROFILES.values()
    ]
    usual = words.say("- **default**: my usual self")
    lines.append(usual if current in PROFILES else usual + mark)
    return words.say("Choose with `/agent NAME`:") + "\n\n" + "\n".join(lines)
