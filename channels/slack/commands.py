"""What stands behind `/trivet`: a command of ours, or words that are said to us. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.contracts.commands import COMMANDS, Command, Suggests, command_behind_name, find_command

SLASH: Final = "/trivet"

_TYPED: Final = re.compile(rf"\s*{SLASH}(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_MARKED: Final = re.compile(r"\s*!([a-z].*)", re.DOTALL | re.IGNORECASE)
_NAMES: Final = frozenset(spec.name for spec in COMMANDS)
SUGGESTED: Final = frozenset(spec.name for spec in COMMANDS if spec.suggests is not Suggests.NOTHING)
"""Commands whose argument we can suggest."""
_LISTED_BY: Final[Mapping[str, str]] = {"sessions": "resume"} | {name: name for name in SUGGESTED}
_SPOKEN: Final = frozenset({"retry", "plan"})
"""Commands that the model answers: what it says belongs to the conversation."""


def picks_below(command: Command | None) -> str | None:
    """The command whose argument can be picked below the answer to this one."""
    return _LISTED_BY.get(command.name) if command is not None and not command.arguments else None


def meant(words: str) -> str:
    """The text of the message: `new` is `/new`, nothing is `/help`, and what is no command is a thing to say."""
    said = words.strip()
    command = None if said.startswith("/") else command_behind_name(said)
    return command.text if command is not None else said


def meant_by(slash: str, words: str) -> str:
    """The same for any slash command of the app: one that is named after a command of ours is that command."""
    name = slash.removeprefix("/").lower()
    return f"/{name} {words.strip()}".strip() if name in _NAMES else meant(words)


def spelled_out(text: str) -> str:
    """A message in which somebody typed `/trivet …` means what the slash command would, and so does `!new` where Slack
    takes no slash commands, in threads; any other is as it is."""
    if match := _TYPED.fullmatch(text):
        return meant(match[1] or "")
    match = _MARKED.fullmatch(text)
    command = command_behind_name(match[1]) if match else None
    return command.text if command is not None else text


def is_for_one(text: str) -> bool:
    """The answer is of interest to the one who asked, and to nobody else."""
    command = find_command(text)
    return command is not None and command.name not in _SPOKEN
