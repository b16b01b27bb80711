"""Which messages are commands. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_COMMAND: Final = re.compile(r"/([a-z][a-z_]{0,31})(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed command: its name in lower case and what stands behind it."""

    name: str
    argument: str


def parse_command(text: str) -> Command | None:
    """`/name argument`, also `/name@bot` and Slack's `/trivet name`; None for anything else."""
    stripped = text.strip()
    match = _COMMAND.fullmatch(stripped)
    if match is None:
        return None
    name, argument = match[1].lower(), (match[2] or "").strip()
    if name == "trivet":
        return parse_command(f"/{argument or 'help'}")
    return Command(name, argument)
