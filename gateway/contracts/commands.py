"""What people can say with a slash, once: /help, the native menus and their translations are made of this table.

What a command does stands in `agent.commands` and `agent.control`; a test pins that both know the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, LiteralString

from gateway.contracts.entries import GrantRole


class Suggests(StrEnum):
    """What could stand behind a command, where a client asks while a person types."""

    NOTHING = "nothing"
    SESSIONS = "sessions"
    MODELS = "models"
    PROFILES = "profiles"


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command as people meet it. `about` and `argument` (what may follow, empty for nothing) are English: the keys
    of their translations; `about` has at most 100 characters, which is what Discord's menu takes. Only a person of
    `role` or more is offered it."""

    name: str
    about: LiteralString
    argument: LiteralString = ""
    suggests: Suggests = Suggests.NOTHING
    role: GrantRole = GrantRole.GUEST
    is_in_menu: bool = True


_RANKS: Final = (GrantRole.BLOCKED, GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)


def is_offered(spec: CommandSpec, role: GrantRole) -> bool:
    """Whether a person of `role` may use the command."""
    return role is not GrantRole.BLOCKED and _RANKS.index(role) >= _RANKS.index(spec.role)


COMMANDS: Final[Sequence[CommandSpec]] = (
    CommandSpec("help", "what I understand"),
    CommandSpec("new", "begin a new conversation"),
    CommandSpec("stop", "stop what is running and drop what waits"),
    CommandSpec("retry", "answer the last message once more"),
    CommandSpec("undo", "take back the last exchange, or several", "number"),
    CommandSpec("title", "show or set the title", "title"),
    CommandSpec("sessions", "your conversations"),
    CommandSpec("resume", "go on with an earlier conversation", "number", Suggests.SESSIONS),
    CommandSpec("model", "show or choose the model", "model", Suggests.MODELS),
    CommandSpec("agent", "who I am in this conversation", "name", Suggests.PROFILES),
    CommandSpec("compact", "condense this conversation", "focus"),
    CommandSpec("status", "what is going on"),
    CommandSpec("where", "where your messages are"),
    CommandSpec("usage", "what you have used: today, this month"),
    CommandSpec("memory", "what I remember", "words"),
    CommandSpec("forget", "make me forget", "what"),
    CommandSpec("remind", "remind you of something", "when and what"),
    CommandSpec("plan", "plan a task first, then do it when you approve", "task"),
    CommandSpec("export", "everything I keep of you, as a file"),
    CommandSpec(
        "heartbeat", "look by myself whether something is to be done", "on, off", role=GrantRole.ADMIN, is_in_menu=False
    ),
    CommandSpec("approve", "let me do what I asked about", "code", is_in_menu=False),
    CommandSpec("deny", "do not let me do what I asked about", "code", is_in_menu=False),
    CommandSpec("start", "what I understand", is_in_menu=False),
)
"""In the order in which they are offered."""
