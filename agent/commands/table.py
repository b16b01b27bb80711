"""The table of commands that are part of the conversation; /stop, /status and /where are `agent.services.control`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agent.commands.help import help_text
from agent.model.client import Permit
from agent.offering import Offer
from agent.tools.enclosures import Enclosed
from agent.tools.permissions import Permissions
from gateway.contracts.commands import COMMANDS, find_command, is_offered
from gateway.contracts.entries import Effect, GrantRole, Session
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage
from gateway.words import Words, words_for


@dataclass(frozen=True, slots=True)
class Asked:
    """One command as its row gets it: what stands behind its name, where, by whom, in which turn, under which fence.
    `ceiling` is what may be used at most for whatever comes of it."""

    argument: str
    message: InboundMessage
    session: Session
    role: GrantRole
    fence: int
    permit: Permit
    ceiling: Permissions
    turn_id: str = ""

    @property
    def words(self) -> Words:
        """Those of whoever asks: what the lane knows was brought up to date when the turn began."""
        return words_for(self.session.language)


@dataclass(frozen=True, slots=True)
class Done:
    """What a command says, what it changes and which files go along; all of it is committed together. `noted` is what
    the transcript keeps of it, for the model to know; of most commands it keeps nothing. `offers` are buttons below.
    `title` is what the conversation is called from now on, if that has changed."""

    text: str
    effects: tuple[Effect, ...] = ()
    noted: CleanText | None = None
    files: tuple[Enclosed, ...] = ()
    offers: tuple[Offer, ...] = ()
    title: CleanText | None = None


@dataclass(frozen=True, slots=True)
class Converse:
    """What a command returns instead of `Done`: the turn goes on as a conversation in which the user said
    `said`. It becomes the turn's user entry, unless the transcript holds it already (`is_stored`): then `authors` are
    those who wrote it; `has_foreign` where something came along that others may have written."""

    said: CleanText
    is_stored: bool = False
    authors: tuple[SessionKey, ...] = ()
    has_foreign: bool = False


Outcome = Done | Converse

_SPECS: Final = {spec.name: spec for spec in COMMANDS}


@dataclass(frozen=True, slots=True)
class CommandRow:
    """What one command does. What /help says of it stands in `gateway.contracts.commands`."""

    name: str
    run: Callable[[Asked], Awaitable[Outcome]]
    is_listed: bool = True


class CommandTable:
    """Runs commands. Refuses two rows of one name, and one to be listed of which `COMMANDS` says nothing."""

    def __init__(self, rows: Iterable[CommandRow], *, can_split: Callable[[Asked], bool]) -> None:
        """`can_split` says of a command whether whoever says it may have tasks split among sub-agents."""
        self._can_split = can_split
        known = (CommandRow("help", self._help), *rows, CommandRow("start", self._help, is_listed=False))
        self._rows = {row.name: row for row in known}
        if len(self._rows) != len(known):
            raise ValueError("two commands share a name")
        if unknown := {row.name for row in known if row.is_listed} - _SPECS.keys():
            raise ValueError(f"nothing is said of {', '.join(sorted(unknown))} in the table of commands")

    async def run(
        self,
        message: InboundMessage,
        session: Session,
        role: GrantRole,
        *,
        fence: int,
        permit: Permit,
        ceiling: Permissions,
        turn_id: str = "",
    ) -> Outcome:
        """Do the command in `message`. Raises `Fenced` and `StoreUnavailable`."""
        command = find_command(message.text)
        asked = Asked(command.arguments if command else "", message, session, role, fence, permit, ceiling, turn_id)
        if command is None or command.name not in self._rows:
            name = command.name if command else message.text[:32]
            return Done(asked.words.say("I do not know /{name}. /help lists what I understand.", name=name))
        if not _is_for(role, command.name):
            return Done(
                asked.words.say("Only admins may use /{name}. /help lists what I understand.", name=command.name)
            )
        return await self._rows[command.name].run(asked)

    async def _help(self, asked: Asked) -> Done:
        listed = {name for name, row in self._rows.items() if row.is_listed}
        return Done(help_text(asked.role, asked.words, listed=listed, can_split=self._can_split(asked)))


def _is_for(role: GrantRole, name: str) -> bool:
    return name not in _SPECS or is_offered(_SPECS[name], role)
