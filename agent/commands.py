"""/commands that are part of the conversation, as one table. /stop, /status and /where run in `agent.control`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.compactor import Compactor
from agent.model.client import Permit
from agent.sentences import status_text, stopped_sentence
from agent.titling import shorten
from gateway.contracts.entries import Effect, OpenSession, Session, SessionStatus, SetTitle
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import LaneDepth, Scrubber, Store

_COMMAND: Final = re.compile(r"/([a-z][a-z_]{0,31})(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_SESSIONS_SHOWN: Final = 10


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


@dataclass(frozen=True, slots=True)
class Done:
    """What a command says and what it changes; the change is committed together with the answer."""

    text: str
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    argument: str
    session: Session
    fence: int
    permit: Permit


class CommandTable:
    """Runs commands."""

    def __init__(self, store: Store, compactor: Compactor, lanes: LaneDepth, scrubber: Scrubber) -> None:
        self._store = store
        self._compactor = compactor
        self._lanes = lanes
        self._scrubber = scrubber
        self._rows: Mapping[str, tuple[str, Callable[[_Asked], Awaitable[Done]]]] = {
            "help": ("what I understand", self._help),
            "start": ("", self._help),
            "new": ("begin a new conversation", self._new),
            "stop": ("stop what is running and drop what waits", self._stop),
            "title": ("show or set the title: /title TEXT", self._title),
            "sessions": ("your conversations", self._sessions),
            "status": ("what is going on", self._status),
            "where": ("where your messages are", self._status),
            "compact": ("condense this conversation: /compact [focus]", self._compact),
        }

    async def run(self, message: InboundMessage, session: Session, *, fence: int, permit: Permit) -> Done:
        """Answer the command in `message`. Raises `Fenced` and `StoreUnavailable`."""
        command = parse_command(message.text)
        if command is None or command.name not in self._rows:
            name = command.name if command else message.text[:32]
            return Done(f"I do not know /{name}. /help lists what I understand.")
        _, answer = self._rows[command.name]
        return await answer(_Asked(command.argument, session, fence, permit))

    async def _help(self, _asked: _Asked) -> Done:
        rows = (f"- /{name}: {about}" for name, (about, _) in self._rows.items() if about)
        return Done("Write to me as you would to a person. I also understand:\n\n" + "\n".join(rows))

    async def _new(self, _asked: _Asked) -> Done:
        return Done("A new conversation has begun.", (OpenSession(),))

    async def _stop(self, _asked: _Asked) -> Done:
        # The control lane stops turns; a /stop that comes this way finds its own lane idle.
        return Done(stopped_sentence(was_running=False, dropped=0))

    async def _title(self, asked: _Asked) -> Done:
        if not asked.argument:
            return Done(f"This conversation is called **{asked.session.title}**.")
        title = self._scrubber.scrub(shorten(" ".join(asked.argument.split())))
        return Done(f"This conversation is now called **{title}**.", (SetTitle(title),))

    async def _sessions(self, asked: _Asked) -> Done:
        sessions = await self._store.sessions(key=asked.session.key, limit=_SESSIONS_SHOWN)
        return Done("Your conversations, newest first:\n\n" + "\n".join(map(_session_line, sessions)))

    async def _status(self, asked: _Asked) -> Done:
        waiting, _ = await self._lanes.lane_depth(asked.session.key)
        # This very command is the turn that runs and the message that waits.
        return Done(status_text(asked.session, waiting=max(waiting - 1, 0), is_running=False))

    async def _compact(self, asked: _Asked) -> Done:
        view = await self._store.view(asked.session.id)
        focus = self._scrubber.scrub(asked.argument) if asked.argument else None
        compacted = await self._compactor.compact(
            asked.session, view, fence=asked.fence, budget=None, permit=asked.permit, focus=focus
        )
        if compacted == tuple(view):
            return Done("There is nothing to condense: a summary would be no shorter.")
        return Done(f"Condensed {len(view) - len(compacted) + 1} messages.")


def _session_line(session: Session) -> str:
    mark = " (current)" if session.status is SessionStatus.ACTIVE else ""
    return f"{session.number}. {session.title}, {session.message_count} messages{mark}"
