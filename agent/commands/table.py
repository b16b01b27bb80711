"""The table of commands that are part of the conversation. /stop, /status and /where run in `agent.control`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agent.commands.parsing import parse_command
from agent.model.client import Permit
from agent.tools.enclosures import Enclosed
from gateway.contracts.access import RANKS
from gateway.contracts.commands import COMMANDS
from gateway.contracts.entries import Effect, GrantRole, Session
from gateway.contracts.messages import CleanText, InboundMessage


@dataclass(frozen=True, slots=True)
class Asked:
    """One command as its row gets it: what stands behind its name, where, by whom, in which turn, under which fence."""

    argument: str
    message: InboundMessage
    session: Session
    role: GrantRole
    fence: int
    permit: Permit
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command says, what it changes and which files go along; all of it is committed together. `noted` is what
    the transcript keeps of it, for the model to know; of most commands it keeps nothing."""

    text: str
    effects: tuple[Effect, ...] = ()
    noted: CleanText | None = None
    files: tuple[Enclosed, ...] = ()


@dataclass(frozen=True, slots=True)
class Converse:
    """What a command returns instead of `Done`: the turn goes on as a conversation in which the user said
    `said`. It becomes the turn's user entry, unless the transcript holds it already (`is_stored`)."""

    said: CleanText
    is_stored: bool = False


Outcome = Done | Converse

_LEAST: Final = {spec.name: spec.role for spec in COMMANDS}
"""Who a person has to be for a command."""


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command. `about` is its line in /help; empty: it is not listed."""

    name: str
    about: str
    run: Callable[[Asked], Awaitable[Outcome]]


class CommandTable:
    """Runs commands. Refuses two rows of one name."""

    def __init__(self, rows: Iterable[CommandRow]) -> None:
        listed = (
            CommandRow("help", "what I understand", self._help),
            *rows,
            CommandRow("start", "", self._help),
        )
        self._rows = {row.name: row for row in listed}
        if len(self._rows) != len(listed):
            raise ValueError("two commands share a name")

    async def run(
        self,
        message: InboundMessage,
        session: Session,
        role: GrantRole,
        *,
        fence: int,
        permit: Permit,
        turn_id: str = "",
    ) -> Outcome:
        """Do the command in `message`. Raises `Fenced` and `StoreUnavailable`."""
        command = parse_command(message.text)
        if command is None or command.name not in self._rows:
            name = command.name if command else message.text[:32]
            return Done(f"I do not know /{name}. /help lists what I understand.")
        if not _is_for(role, command.name):
            return Done(f"Only admins may use /{command.name}. /help lists what I understand.")
        asked = Asked(command.argument, message, session, role, fence, permit, turn_id)
        return await self._rows[command.name].run(asked)

    async def _help(self, asked: Asked) -> Done:
        rows = (row for row in self._rows.values() if row.about and _is_for(asked.role, row.name))
        lines = (f"- /{row.name}: {row.about}" for row in rows)
        return Done("Write to me as you would to a person. I also understand:\n\n" + "\n".join(lines))


def _is_for(role: GrantRole, name: str) -> bool:
    return RANKS.index(role) >= RANKS.index(_LEAST.get(name, GrantRole.GUEST))
