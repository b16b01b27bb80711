"""What stands behind `/trivet`: a command of ours, or words that are said to us. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from channels.normalized import Command, find_command
from gateway.contracts.commands import COMMANDS, Suggests

SLASH: Final = "/trivet"

_TYPED: Final = re.compile(rf"\s*{SLASH}(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_ARGUMENTS: Final = {spec.name: spec.argument for spec in COMMANDS}
SUGGESTED: Final = frozenset(spec.name for spec in COMMANDS if spec.suggests is not Suggests.NOTHING)
"""Commands whose argument we can suggest."""
_LISTED_BY: Final[Mapping[str, str]] = {"sessions": "resume"} | {name: name for name in SUGGESTED}
_SPOKEN: Final = frozenset({"retry", "plan"})
"""Commands that the model answers: what it says belongs to the conversation."""


def picks_below(command: Command | None) -> str | None:
    """The command whose argument can be picked below the answer to this one."""
    return _LISTED_BY.get(command.name) if command is not None and not command.arguments else None


def meant(words: str) -> str:
    """The text of the message: `new` is `/new`, nothing is `/help`, and what is no command is a thing to say.

    A command that takes no argument is none if more follows ("help me with this letter"), but for those that must
    never wait: who says `stop`, and whatever else, means it.
    """
    said = words.strip()
    if not said or said.startswith("/"):
        return said or "/help"
    command = find_command(f"/{said}")
    if command is None or command.name not in _ARGUMENTS:
        return said
    takes_all = bool(_ARGUMENTS[command.name]) or command.control is not None
    return f"/{said}" if takes_all or not command.arguments else said


def meant_by(slash: str, words: str) -> str:
    """The same for any slash command of the app: one that is named after a command of ours is that command."""
    name = slash.removeprefix("/").lower()
    return f"/{name} {words.strip()}".strip() if name in _ARGUMENTS else meant(words)


def spelled_out(text: str) -> str:
    """A message in which somebody typed `/trivet …` means what the slash command would; any other is as it is."""
    match = _TYPED.fullmatch(text)
    return meant(match[1] or "") if match else text


def is_for_one(text: str) -> bool:
    """The answer is of interest to the one who asked, and to nobody else."""
    command = find_command(text)
    return command is not None and command.name not in _SPOKEN
