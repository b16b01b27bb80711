"""The answer to /help: what a person of some role may say with a slash, in his language. Pure."""

from __future__ import annotations

from collections.abc import Set

from gateway.contracts.commands import COMMANDS, CommandSpec, is_offered
from gateway.contracts.entries import GrantRole
from gateway.words import Words, about_in, argument_in


def help_text(role: GrantRole, words: Words, *, listed: Set[str], can_split: bool) -> str:
    """Every command that `role` is offered, of those that are `listed` here; `can_split`: whoever asks may have tasks
    split among sub-agents."""
    lines = "\n".join(_line(spec, words) for spec in COMMANDS if spec.name in listed and is_offered(spec, role))
    said = [words.say("Write to me as you would to a person. I also understand:"), lines]
    if can_split:
        said.append(words.say("Parts of a task can be done side by side: ask me to split it among sub-agents."))
    return "\n\n".join(said)


def _line(spec: CommandSpec, words: Words) -> str:
    argument = argument_in(spec, words.language)
    shown = f"/{spec.name} [{argument}]" if argument else f"/{spec.name}"
    return f"- {shown}: {about_in(spec, words.language)}"
