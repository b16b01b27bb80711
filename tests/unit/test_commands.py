"""What counts as a command."""

from __future__ import annotations

import pytest

from agent.commands.parsing import Command, parse_command


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", Command("new", "")),
        ("  /NEW  ", Command("new", "")),
        ("/title My holiday", Command("title", "My holiday")),
        ("/title@TrivetBot My holiday", Command("title", "My holiday")),
        ("/compact the\nbudget", Command("compact", "the\nbudget")),
        ("/trivet status", Command("status", "")),
        ("/trivet /title x", None),
        ("/trivet", Command("help", "")),
        ("/etc/passwd is what?", None),
        ("/ new", None),
        ("hello /new", None),
        ("", None),
    ],
)
def test_commands_are_told_from_talk(text: str, command: Command | None) -> None:
    """A slash, a name, maybe the bot's name, then white space or nothing: all else is talk."""
    assert parse_command(text) == command
